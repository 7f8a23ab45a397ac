// SPDX-License-Identifier: Apache-2.0
// stack: tensors of one type along a new axis; the experts of a layer become one tensor.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& first = input.operands[0];
  FL_TRY(want(first.layout == tensor::Layout::kRowMajor && rank(first) < 6, OpKind::kStack, "x", first,
              "a row-major tensor of rank 5 or less"));
  const int64_t wanted_axis = input.attributes.get_int("axis");
  const int axis = resolve_axis(wanted_axis, rank(first) + 1);
  FL_TRY(want_attribute(axis >= 0 && (axis < rank(first) || !is_block_format(first.dtype)), OpKind::kStack, "axis",
                        std::to_string(wanted_axis),
                        "a new axis of " + first.to_string() + " (not the last one of a block format)"));
  for (size_t i = 1; i < input.operands.size(); ++i) {
    FL_TRY(want(input.operands[i] == first, OpKind::kStack, "x " + std::to_string(i), input.operands[i],
                first.to_string()));
  }
  tensor::Type result = first;
  result.shape.insert(result.shape.begin() + axis, tensor::Dim(static_cast<int64_t>(input.operands.size())));
  return Types{std::move(result)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  const int axis = resolve_axis(input.attributes.get_int("axis"), rank(input.operands[0]) + 1);
  for (int i = 0; i < rank(input.operands[0]); ++i) {
    rules.push_back({"axis", std::vector<int>(input.operands.size(), i), {i < axis ? i : i + 1}, false});
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef stack_def() {
  OpDef def;
  def.kind = OpKind::kStack;
  def.name = "stack";
  def.operands = {{"x"}, {"more", OperandDef::Arity::kVariadic}};
  def.attributes = {{"axis", AttributeType::kInt, false, int64_t{0}, "place of the new axis; negative: from the end"}};
  def.meaning = "The operands, all of one type, along a new axis as long as their number.";
  def.rounding = "none";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "d operand i = dy at index i of the axis";
  return def;
}

}  // namespace firstlight::ops
