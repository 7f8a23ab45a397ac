// SPDX-License-Identifier: Apache-2.0
// concat: tensors one after the other along an axis.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& first = input.operands[0];
  FL_TRY(want(first.layout == tensor::Layout::kRowMajor && rank(first) >= 1, OpKind::kConcat, "x", first,
              "a row-major tensor of rank 1 or more"));
  const int64_t wanted_axis = input.attributes.get_int("axis");
  const int axis = resolve_axis(wanted_axis, rank(first));
  FL_TRY(want_attribute(axis >= 0, OpKind::kConcat, "axis", std::to_string(wanted_axis),
                        "an axis of " + first.to_string()));
  const auto at = static_cast<size_t>(axis);
  tensor::Type result = first;
  for (size_t i = 1; i < input.operands.size(); ++i) {
    const tensor::Type& x = input.operands[i];
    tensor::Type like = x;
    const bool same_rank = rank(x) == rank(first);
    if (same_rank) like.shape[at] = first.shape[at];
    const std::string name = "x " + std::to_string(i);
    FL_TRY(
        want(same_rank && like == first, OpKind::kConcat, name, x, "the type and other axes of " + first.to_string()));
    tensor::Dim& sum = result.shape[at];
    FL_TRY(want(sum.symbol == x.shape[at].symbol && sum.rate == x.shape[at].rate, OpKind::kConcat, name, x,
                "sizes of one symbol along the axis"));
    sum.factor += x.shape[at].factor;
  }
  return Types{std::move(result)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  const int joined = resolve_axis(input.attributes.get_int("axis"), rank(input.operands[0]));
  for (int i = 0; i < rank(input.operands[0]); ++i) {
    if (i != joined) rules.push_back({"axis", std::vector<int>(input.operands.size(), i), {i}, false});
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef concat_def() {
  OpDef def;
  def.kind = OpKind::kConcat;
  def.name = "concat";
  def.operands = {{"x"}, {"more", OperandDef::Arity::kVariadic}};
  def.attributes = {{"axis", AttributeType::kInt, true, {}, "negative: from the end"}};
  def.meaning = "The operands one after the other along the axis; all other axes and the element type are equal.";
  def.rounding = "none";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "d operand i = its slice of dy";
  return def;
}

}  // namespace firstlight::ops
