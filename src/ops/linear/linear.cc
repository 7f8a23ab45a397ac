// SPDX-License-Identifier: Apache-2.0
// linear: rows times a weight matrix stored with one row per output.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const tensor::Type& w = input.operands[1];
  FL_TRY(want(is_f32(x) && rank(x) >= 1, OpKind::kLinear, "x", x, "f32 of rank 1 or more"));
  FL_TRY(want(!is_plain(w) || is_plain_float(w), OpKind::kLinear, "w", w, "floats, or a format of weights"));
  FL_TRY(want(rank(w) == 2 && w.shape[1] == last_dim(x), OpKind::kLinear, "w", w,
              "[R, " + last_dim(x).to_string() + "] (x is " + x.to_string() + ")"));
  if (const tensor::Type* bias = optional_operand(input, 2)) {
    FL_TRY(want(is_plain_float(*bias) && has_shape(*bias, {w.shape[0]}), OpKind::kLinear, "bias", *bias,
                "a float vector of " + w.shape[0].to_string()));
  }
  tensor::Shape shape = leading_dims(x);
  shape.push_back(w.shape[0]);
  return Types{f32(std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  const int last = rank(input.operands[0]) - 1;
  const bool biased = input.operands.size() > 2;
  std::vector<ShardRule> rules;
  rules.push_back({"rows", {-1, 0}, {last}, false});
  if (biased) rules.back().operand_axes.push_back(0);
  // A bias would be added on every rank, so columns are split only without one.
  if (!biased) rules.push_back({"columns", {last, 1}, {-1}, true});
  if (last >= 1) {
    rules.push_back({"tokens", {0, -1}, {0}, false});
    if (biased) rules.back().operand_axes.push_back(-1);
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const auto k = static_cast<double>(last_dim(input.operands[0]).at(values));
  return elementwise_cost(input, results, values, 2 * k);
}

}  // namespace

OpDef linear_def() {
  OpDef def;
  def.kind = OpKind::kLinear;
  def.name = "linear";
  def.operands = {{"x"}, {"w"}, {"bias", OperandDef::Arity::kOptional}};
  def.attributes = {{"compute", AttributeType::kString, false, std::string("auto"),
                     "\"auto\", or the mode: \"f32\" raises it for good"}};
  def.meaning = "y[.., r] = sum over k of x[.., k] * w[r, k] (+ bias[r]); w of any type, decoded.";
  def.rounding =
      "by compute mode (docs/numerics.md): f32 products and sums; bf16 operands rounded once, f32 sums; w8a8: int8 "
      "activations per block of 32, f32 sums of block products. The judge multiplies and sums in float64, rounds once.";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = linear(dy, transpose(w)); dw = transpose(dy) x; dbias = sum of dy over rows";
  return def;
}

}  // namespace firstlight::ops
