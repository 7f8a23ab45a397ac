// SPDX-License-Identifier: Apache-2.0
// index_mask: which indices are present; group-limited routing masks its groups with it.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& idx = input.operands[0];
  const int64_t size = input.attributes.get_int("size");
  FL_TRY(want(is_i32(idx) && rank(idx) >= 1, OpKind::kIndexMask, "idx", idx, "i32 of rank 1 or more"));
  FL_TRY(want_attribute(size >= 1, OpKind::kIndexMask, "size", std::to_string(size), "1 or more"));
  tensor::Shape shape = leading_dims(idx);
  shape.emplace_back(size);
  return Types{f32(std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 0; i + 1 < rank(input.operands[0]); ++i) rules.push_back({"axis", {i}, {i}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef index_mask_def() {
  OpDef def;
  def.kind = OpKind::kIndexMask;
  def.name = "index_mask";
  def.operands = {{"idx"}};
  def.attributes = {{"size", AttributeType::kInt, true, {}, "length of the result's last axis"}};
  def.meaning = "y[.., i] = 1 when some idx[.., j] equals i, else 0. Indices outside [0, size) mark nothing.";
  def.rounding = "none";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none";
  return def;
}

}  // namespace firstlight::ops
