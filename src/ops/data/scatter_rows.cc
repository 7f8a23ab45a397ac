// SPDX-License-Identifier: Apache-2.0
// scatter_rows: rows put into a tensor, or added to it, at given places; image features among token rows.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const tensor::Type& ids = input.operands[1];
  const tensor::Type& rows = input.operands[2];
  const std::string& mode = input.attributes.get_string("mode");
  FL_TRY(want(is_f32(x) && rank(x) >= 1, OpKind::kScatterRows, "x", x, "f32 of rank 1 or more"));
  FL_TRY(want(is_i32(ids) && rank(ids) == 1, OpKind::kScatterRows, "ids", ids, "i32[N]"));
  tensor::Shape wanted = x.shape;
  wanted[0] = ids.shape[0];
  FL_TRY(want(is_f32(rows) && has_shape(rows, wanted), OpKind::kScatterRows, "rows", rows,
              "f32" + tensor::shape_to_string(wanted)));
  FL_TRY(want_attribute(mode == "set" || mode == "add", OpKind::kScatterRows, "mode", "\"" + mode + "\"",
                        "\"set\" or \"add\""));
  return Types{x};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 1; i < rank(input.operands[0]); ++i) rules.push_back({"columns", {i, -1, i}, {i}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef scatter_rows_def() {
  OpDef def;
  def.kind = OpKind::kScatterRows;
  def.name = "scatter_rows";
  def.operands = {{"x"}, {"ids"}, {"rows"}};
  def.attributes = {{"mode", AttributeType::kString, false, std::string("set"), "\"set\" or \"add\""}};
  def.meaning =
      "y = x, then in order of n: y[ids[n], ...] = rows[n, ...] (set) or += rows[n, ...] (add). An index outside x is "
      "left out; of equal indices the last one stays when set.";
  def.rounding = "set: none; add: once per addition, in order of n";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "drows[n] = dy[ids[n]]; dx = dy, with zero rows at ids when set";
  return def;
}

}  // namespace firstlight::ops
