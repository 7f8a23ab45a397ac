// SPDX-License-Identifier: Apache-2.0
// rms_norm over the last axis, with an optional weight stored as w or as w - offset.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  FL_TRY(want(is_plain_float(x) && rank(x) >= 1 && last_dim(x).is_static() && last_dim(x).factor > 0, OpKind::kRmsNorm,
              "x", x, "a plain float tensor whose last axis is constant and not empty"));
  const double eps = input.attributes.get_float("eps");
  FL_TRY(
      want_attribute(eps >= 0 && eps < 1e30, OpKind::kRmsNorm, "eps", exact_decimal(eps), "0 or more, less than 1e30"));
  if (const tensor::Type* weight = optional_operand(input, 1)) {
    FL_TRY(want(is_plain_float(*weight) && has_shape(*weight, {last_dim(x)}), OpKind::kRmsNorm, "weight", *weight,
                "a float vector of " + last_dim(x).to_string()));
  }
  return Types{f32(x.shape)};
}

DecomposeResult decompose(DecomposeBuilder& builder, std::span<const DecomposeBuilder::Value> operands,
                          const Attributes& attributes) {
  const auto squares = emit_map(builder, {operands[0]}, "mul(x0, x0)");
  const auto mean = emit_reduce(builder, squares, "mean");
  const std::string eps = exact_decimal(attributes.get_float("eps"));
  const std::string normed = "mul(x0, rsqrt(add(x1, " + eps + ")))";
  if (operands.size() < 2) return std::vector{emit_map(builder, {operands[0], mean}, normed)};
  const std::string weight = "add(x2, " + exact_decimal(attributes.get_float("offset")) + ")";
  return std::vector{emit_map(builder, {operands[0], mean, operands[1]}, "mul(" + normed + ", " + weight + ")")};
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
  return elementwise_cost(input, results, values, 4);
}

}  // namespace

OpDef rms_norm_def() {
  OpDef def;
  def.kind = OpKind::kRmsNorm;
  def.name = "rms_norm";
  def.operands = {{"x"}, {"weight", OperandDef::Arity::kOptional}};
  def.attributes = {
      {"eps", AttributeType::kFloat, true, {}, "added to the mean of squares"},
      {"offset", AttributeType::kFloat, false, 0.0, "added to the weight (1 where files store w - 1)"},
  };
  def.meaning =
      "y = x / sqrt(mean(x^2) + eps) * (weight + offset) over the last axis; without a weight the last factor is 1. A "
      "row of zeros gives zeros when eps > 0.";
  def.rounding = "float32 throughout, rounded once at the end; the judge sums in float64";
  def.elementwise_rows = true;
  def.infer = infer;
  def.decompose = decompose;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "r = 1/sqrt(mean(x^2)+eps), g = dy*(weight+offset): dx = r*g - x*r^3*mean(g*x); dw = sum(dy*x*r)";
  return def;
}

}  // namespace firstlight::ops
