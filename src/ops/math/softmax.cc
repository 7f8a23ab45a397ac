// SPDX-License-Identifier: Apache-2.0
// softmax over the last axis.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  FL_TRY(want(is_plain_float(x) && rank(x) >= 1 && last_dim(x).is_static() && last_dim(x).factor > 0, OpKind::kSoftmax,
              "x", x, "a plain float tensor whose last axis is constant and not empty"));
  return Types{f32(x.shape)};
}

DecomposeResult decompose(DecomposeBuilder& builder, std::span<const DecomposeBuilder::Value> operands,
                          const Attributes&) {
  const auto top = emit_reduce(builder, operands[0], "max");
  const auto exps = emit_map(builder, {operands[0], top}, "exp(sub(x0, x1))");
  const auto sum = emit_reduce(builder, exps, "sum");
  return std::vector{emit_map(builder, {exps, sum}, "div(x0, x1)")};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 0; i + 1 < rank(input.operands[0]); ++i) rules.push_back({"axis", {i}, {i}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 4);
}

}  // namespace

OpDef softmax_def() {
  OpDef def;
  def.kind = OpKind::kSoftmax;
  def.name = "softmax";
  def.operands = {{"x"}};
  def.meaning =
      "y = exp(x - max) / sum(exp(x - max)) over the last axis. -inf gives 0; a row of -inf alone, or with NaN or +inf "
      "in it, gives NaN.";
  def.rounding = "float32 throughout; the judge sums in float64 and rounds once";
  def.elementwise_rows = true;
  def.infer = infer;
  def.decompose = decompose;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = y * (dy - sum(dy * y))";
  return def;
}

}  // namespace firstlight::ops
