// SPDX-License-Identifier: Apache-2.0
// layer_norm over the last axis.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  FL_TRY(want(is_plain_float(x) && rank(x) >= 1 && last_dim(x).is_static() && last_dim(x).factor > 0,
              OpKind::kLayerNorm, "x", x, "a plain float tensor whose last axis is constant and not empty"));
  const double eps = input.attributes.get_float("eps");
  FL_TRY(want_attribute(eps >= 0 && eps < 1e30, OpKind::kLayerNorm, "eps", exact_decimal(eps),
                        "0 or more, less than 1e30"));
  for (size_t i = 1; i < input.operands.size(); ++i) {
    FL_TRY(want(is_plain_float(input.operands[i]) && has_shape(input.operands[i], {last_dim(x)}), OpKind::kLayerNorm,
                i == 1 ? "weight" : "bias", input.operands[i], "a float vector of " + last_dim(x).to_string()));
  }
  return Types{f32(x.shape)};
}

DecomposeResult decompose(DecomposeBuilder& builder, std::span<const DecomposeBuilder::Value> operands,
                          const Attributes& attributes) {
  const auto mean = emit_reduce(builder, operands[0], "mean");
  const auto centred = emit_map(builder, {operands[0], mean}, "sub(x0, x1)");
  const auto squares = emit_map(builder, {centred}, "mul(x0, x0)");
  const auto variance = emit_reduce(builder, squares, "mean");
  const std::string normed = "mul(x0, rsqrt(add(x1, " + exact_decimal(attributes.get_float("eps")) + ")))";
  if (operands.size() == 1) return std::vector{emit_map(builder, {centred, variance}, normed)};
  if (operands.size() == 2) {
    return std::vector{emit_map(builder, {centred, variance, operands[1]}, "mul(" + normed + ", x2)")};
  }
  return std::vector{
      emit_map(builder, {centred, variance, operands[1], operands[2]}, "add(mul(" + normed + ", x2), x3)")};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 0; i + 1 < rank(input.operands[0]); ++i) {
    std::vector<int> axes(input.operands.size(), -1);
    axes[0] = i;
    rules.push_back({"axis", std::move(axes), {i}, false});
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 7);
}

}  // namespace

OpDef layer_norm_def() {
  OpDef def;
  def.kind = OpKind::kLayerNorm;
  def.name = "layer_norm";
  def.operands = {{"x"}, {"weight", OperandDef::Arity::kOptional}, {"bias", OperandDef::Arity::kOptional}};
  def.attributes = {{"eps", AttributeType::kFloat, true, {}, "added to the variance"}};
  def.meaning = "y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias over the last axis.";
  def.rounding = "float32 throughout, rounded once at the end; the judge sums in float64";
  def.elementwise_rows = true;
  def.infer = infer;
  def.decompose = decompose;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "n = (x-mean)*r, g = dy*weight: dx = r*(g - mean(g) - n*mean(g*n)); dw = sum(dy*n); db = sum(dy)";
  return def;
}

}  // namespace firstlight::ops
