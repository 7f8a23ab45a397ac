// SPDX-License-Identifier: Apache-2.0
// pad: a constant before and behind one axis.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const int64_t before = input.attributes.get_int("before");
  const int64_t after = input.attributes.get_int("after");
  FL_TRY(want(is_plain_float(x) && rank(x) >= 1, OpKind::kPad, "x", x, "a plain float tensor of rank 1 or more"));
  const int axis = resolve_axis(input.attributes.get_int("axis"), rank(x));
  FL_TRY(want_attribute(axis >= 0, OpKind::kPad, "axis", std::to_string(input.attributes.get_int("axis")),
                        "an axis of " + x.to_string()));
  FL_TRY(want_attribute(before >= 0 && before <= kMaxPad, OpKind::kPad, "before", std::to_string(before),
                        "0 to " + std::to_string(kMaxPad)));
  FL_TRY(want_attribute(after >= 0 && after <= kMaxPad, OpKind::kPad, "after", std::to_string(after),
                        "0 to " + std::to_string(kMaxPad)));
  tensor::Shape shape = x.shape;
  tensor::Dim& dim = shape[static_cast<size_t>(axis)];
  FL_TRY(want(dim.is_static(), OpKind::kPad, "x", x, "a constant size of axis " + std::to_string(axis)));
  dim = tensor::Dim(dim.factor + before + after);
  return Types{f32(std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  const int padded = resolve_axis(input.attributes.get_int("axis"), rank(input.operands[0]));
  for (int i = 0; i < rank(input.operands[0]); ++i) {
    if (i != padded) rules.push_back({"axis", {i}, {i}, false});
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef pad_def() {
  OpDef def;
  def.kind = OpKind::kPad;
  def.name = "pad";
  def.operands = {{"x"}};
  def.attributes = {
      {"axis", AttributeType::kInt, true, {}, "negative: from the end"},
      {"before", AttributeType::kInt, false, int64_t{0}, "elements put in front"},
      {"after", AttributeType::kInt, false, int64_t{0}, "elements put behind"},
      {"value", AttributeType::kFloat, false, 0.0, "what they are"},
  };
  def.meaning = "x with `before` and `after` elements of `value` around it on one axis, in float32.";
  def.rounding = "none: decoding is exact in float32";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = the inner part of dy";
  return def;
}

}  // namespace firstlight::ops
