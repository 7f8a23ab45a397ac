// SPDX-License-Identifier: Apache-2.0
// recur_gla: gated linear attention. Mamba-2, lightning attention and RWKV 5 and 6 are this with their own decay.
#include "ops/defs.h"
#include "ops/recurrence/fixed_state.h"

namespace firstlight::ops {
namespace {

constexpr OpKind kOp = OpKind::kRecurGla;

Result<Types> infer(const InferInput& input) {
  const int64_t groups = FL_TRY(static_size(input, kOp, 0, 3, 1));
  const int64_t key = FL_TRY(static_size(input, kOp, 0, 3, 2));
  const int64_t heads = FL_TRY(static_size(input, kOp, 2, 3, 1));
  const int64_t value = FL_TRY(static_size(input, kOp, 2, 3, 2));
  FL_TRY(want_activation(input, kOp, 1, {groups, key}));
  FL_TRY(want_activation(input, kOp, 2, {heads, value}));
  FL_TRY(want(heads % groups == 0, kOp, "v", input.operands[2], "a multiple of " + std::to_string(groups) + " heads"));
  const tensor::Type& decay = input.operands[3];
  const bool constant = is_plain_float(decay) && has_shape(decay, {tensor::Dim(heads)});
  const bool per_head = want_activation(input, kOp, 3, {heads}).ok();
  const bool per_key = want_activation(input, kOp, 3, {heads, key}).ok();
  FL_TRY(want(constant || per_head || per_key, kOp, "decay", decay,
              "float[H], f32[T, H] or f32[T, H, Dk] with " + std::to_string(heads) + " heads"));
  if (const tensor::Type* bonus = optional_operand(input, 5)) {
    FL_TRY(want(is_plain_float(*bonus) && has_shape(*bonus, {tensor::Dim(heads), tensor::Dim(key)}), kOp, "bonus",
                *bonus, "a float matrix [" + std::to_string(heads) + ", " + std::to_string(key) + "]"));
  }
  FL_TRY(want_fixed_component(input, kOp, heads * key, value));
  return Types{input.operands[2], tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput& input) {
  ShardRule rule{"heads", {1, 1, 1, rank(input.operands[3]) == 1 ? 0 : 1, 1}, {1, 1}, false};
  if (input.operands.size() > 5) rule.operand_axes.push_back(0);
  return {rule};
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return recurrence_cost(input, results, values, 5);
}

}  // namespace

OpDef recur_gla_def() {
  OpDef def;
  def.kind = kOp;
  def.name = "recur_gla";
  def.operands = {{"q"},
                  {"k"},
                  {"v"},
                  {"decay"},
                  {"state", OperandDef::Arity::kOne, true},
                  {"bonus", OperandDef::Arity::kOptional}};
  def.attributes = {component_attribute()};
  def.meaning =
      "Per sequence, token by token, head h with group g = h / (H / G), S the Dk x Dv matrix of the head in component "
      "{H, Dk, Dv}: S <- diag(exp(decay)) S + k v^T, y = S^T q. decay is a natural logarithm: [H] for all tokens, "
      "[T, H] one factor for the head, [T, H, Dk] one per row of S; -inf forgets all. With bonus [H, Dk]: y = S^T q + "
      "(q . (bonus * k)) v with S as it was before the token. q and k: f32[T, G, Dk], v and y: f32[T, H, Dv]. Results: "
      "y and the state after it.";
  def.rounding =
      "factors, products and sums in float32, in whatever order, state kept in float32; the judge in float64, state "
      "rounded once after the batch's last token";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient =
      "backwards over t: dS += q dy^T; dq = S dy; dk = dS v; dv = dS^T k; ddecay = sum(exp(decay) S_before * dS); dS "
      "<- "
      "exp(decay) dS";
  return def;
}

}  // namespace firstlight::ops
