// SPDX-License-Identifier: Apache-2.0
// top_k: the largest elements of the last axis; what routers choose by.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const int64_t k = input.attributes.get_int("k");
  FL_TRY(want(is_f32(x) && rank(x) >= 1 && last_dim(x).is_static(), OpKind::kTopK, "x", x,
              "f32 with a constant last axis"));
  FL_TRY(want_attribute(k >= 1 && k <= last_dim(x).factor, OpKind::kTopK, "k", std::to_string(k),
                        "1 to the last axis of " + x.to_string()));
  tensor::Shape shape = leading_dims(x);
  shape.emplace_back(k);
  return Types{f32(shape), i32(shape)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 0; i + 1 < rank(input.operands[0]); ++i) rules.push_back({"axis", {i}, {i, i}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost = elementwise_cost(input, results, values, 0);
  cost.operations = 2 * static_cast<double>(tensor::num_elements(input.operands[0].shape, values));
  return cost;
}

}  // namespace

OpDef top_k_def() {
  OpDef def;
  def.kind = OpKind::kTopK;
  def.name = "top_k";
  def.operands = {{"x"}};
  def.attributes = {{"k", AttributeType::kInt, true, {}, "how many"}};
  def.meaning =
      "The k largest of the last axis in descending order and their indices (i32). Of equal values the lower index "
      "comes first; NaN counts as smaller than every number.";
  def.rounding = "none: values are copied";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx[.., indices[.., j]] = d values[.., j]; none through the indices";
  return def;
}

}  // namespace firstlight::ops
