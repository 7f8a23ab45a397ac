// SPDX-License-Identifier: Apache-2.0
// transpose: permutes axes.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const std::vector<int64_t>& perm = input.attributes.get_ints("perm");
  FL_TRY(want(x.layout == tensor::Layout::kRowMajor, OpKind::kTranspose, "x", x, "a row-major tensor"));
  const std::string found = attribute_to_string(perm);
  const size_t axes = x.shape.size();
  FL_TRY(
      want_attribute(perm.size() == axes, OpKind::kTranspose, "perm", found, "one entry per axis of " + x.to_string()));
  std::vector<bool> seen(axes, false);
  tensor::Shape shape;
  for (const int64_t axis : perm) {
    const bool fresh = axis >= 0 && static_cast<size_t>(axis) < axes && !seen[static_cast<size_t>(axis)];
    FL_TRY(want_attribute(fresh, OpKind::kTranspose, "perm", found, "each axis once"));
    seen[static_cast<size_t>(axis)] = true;
    shape.push_back(x.shape[static_cast<size_t>(axis)]);
  }
  const bool keeps_last = axes == 0 || perm.back() == static_cast<int64_t>(axes) - 1;
  FL_TRY(want_attribute(!is_block_format(x.dtype) || keeps_last, OpKind::kTranspose, "perm", found,
                        "the last axis of " + x.to_string() + " left in place (its rows are stored in blocks)"));
  return Types{tensor::Type::tensor(x.dtype, std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  const std::vector<int64_t>& perm = input.attributes.get_ints("perm");
  std::vector<ShardRule> rules;
  for (size_t i = 0; i < perm.size(); ++i) {
    rules.push_back({"axis", {static_cast<int>(perm[i])}, {static_cast<int>(i)}, false});
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef transpose_def() {
  OpDef def;
  def.kind = OpKind::kTranspose;
  def.name = "transpose";
  def.operands = {{"x"}};
  def.attributes = {{"perm", AttributeType::kInts, true, {}, "result axis i is x's axis perm[i]"}};
  def.meaning = "y's axis i is x's axis perm[i]. Block formats keep their last axis.";
  def.rounding = "none";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = transpose(dy, inverse of perm)";
  return def;
}

}  // namespace firstlight::ops
