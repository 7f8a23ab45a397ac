// SPDX-License-Identifier: Apache-2.0
// conv1d: a causal depthwise convolution over the tokens of a sequence.
#include "ops/defs.h"
#include "ops/recurrence/fixed_state.h"

namespace firstlight::ops {
namespace {

constexpr OpKind kOp = OpKind::kConv1d;

Result<Types> infer(const InferInput& input) {
  const int64_t channels = FL_TRY(static_size(input, kOp, 0, 2, 1));
  const tensor::Type& weight = input.operands[1];
  const bool is_matrix = is_plain_float(weight) && rank(weight) == 2 && weight.shape[0] == tensor::Dim(channels) &&
                         weight.shape[1].is_static() && weight.shape[1].factor > 0;
  FL_TRY(want(is_matrix, kOp, "weight", weight, "a float matrix [" + std::to_string(channels) + ", taps]"));
  const int64_t dilation = input.attributes.get_int("dilation");
  FL_TRY(want_attribute(dilation >= 1 && dilation <= 4096, kOp, "dilation", std::to_string(dilation), "1 to 4096"));
  FL_TRY(want_fixed_component(input, kOp, (weight.shape[1].factor - 1) * dilation, channels));
  if (const tensor::Type* bias = optional_operand(input, 3)) {
    FL_TRY(want(is_plain_float(*bias) && has_shape(*bias, {tensor::Dim(channels)}), kOp, "bias", *bias,
                "a float vector of " + std::to_string(channels)));
  }
  return Types{input.operands[0], tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput& input) {
  ShardRule rule{"channels", {1, 0, 1}, {1, 1}, false};
  if (input.operands.size() > 3) rule.operand_axes.push_back(0);
  return {rule};
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost = recurrence_cost(input, results, values, 0);
  cost.operations = 2 * static_cast<double>(input.operands[1].shape[1].factor) *
                    static_cast<double>(tensor::num_elements(results[0].shape, values));
  return cost;
}

}  // namespace

OpDef conv1d_def() {
  OpDef def;
  def.kind = kOp;
  def.name = "conv1d";
  def.operands = {{"x"}, {"weight"}, {"state", OperandDef::Arity::kOne, true}, {"bias", OperandDef::Arity::kOptional}};
  def.attributes = {component_attribute(),
                    {"dilation", AttributeType::kInt, false, int64_t{1}, "tokens from one tap to the next"}};
  def.meaning =
      "y[t, c] = bias[c] + sum over taps j < k of weight[c, j] x[t - (k - 1 - j) dilation, c], t counted within the "
      "sequence; the last tap is the token itself. The component {(k - 1) dilation, C} of the state holds the rows "
      "before the batch, oldest first (0 when the sequence starts), and then the last ones. Results: y and the state "
      "after it.";
  def.rounding = "products and sums in float32; the judge in float64, rounded once; the state is float32, not rounded";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx[t] = sum_j weight[:, j] dy[t + (k - 1 - j) dilation]; dweight[:, j] = sum_t dy[t] x[t - ...]";
  return def;
}

}  // namespace firstlight::ops
