// SPDX-License-Identifier: Apache-2.0
// cumsum: running sums along one axis.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  FL_TRY(want(is_plain_float(x) && rank(x) >= 1, OpKind::kCumsum, "x", x, "a plain float tensor of rank 1 or more"));
  const int axis = resolve_axis(input.attributes.get_int("axis"), rank(x));
  FL_TRY(want_attribute(axis >= 0, OpKind::kCumsum, "axis", std::to_string(input.attributes.get_int("axis")),
                        "an axis of " + x.to_string()));
  FL_TRY(want(x.shape[static_cast<size_t>(axis)].is_static(), OpKind::kCumsum, "x", x,
              "a constant size of axis " + std::to_string(axis)));
  return Types{f32(x.shape)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  const int summed = resolve_axis(input.attributes.get_int("axis"), rank(input.operands[0]));
  for (int i = 0; i < rank(input.operands[0]); ++i) {
    if (i != summed) rules.push_back({"axis", {i}, {i}, false});
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 1);
}

}  // namespace

OpDef cumsum_def() {
  OpDef def;
  def.kind = OpKind::kCumsum;
  def.name = "cumsum";
  def.operands = {{"x"}};
  def.attributes = {
      {"axis", AttributeType::kInt, false, int64_t{-1}, "a constant axis; negative: from the end"},
      {"exclusive", AttributeType::kBool, false, false, "whether element i is left out of its own sum"},
      {"reverse", AttributeType::kBool, false, false, "sums from the end"},
  };
  def.meaning =
      "y[.., i, ..] = sum of x[.., j, ..] over j <= i (j < i when exclusive; j >= i or j > i when reversed). Over a "
      "sequence's tokens a recurrence does it: that axis holds several sequences.";
  def.rounding = "sums in float64, rounded once per element";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = cumsum of dy the other way round";
  return def;
}

}  // namespace firstlight::ops
