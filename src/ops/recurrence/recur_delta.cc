// SPDX-License-Identifier: Apache-2.0
// recur_delta: the gated delta rule. Gated DeltaNet has one decay per head, Kimi Delta Attention one per key channel.
#include "ops/defs.h"
#include "ops/recurrence/fixed_state.h"

namespace firstlight::ops {
namespace {

constexpr OpKind kOp = OpKind::kRecurDelta;

Result<Types> infer(const InferInput& input) {
  const int64_t groups = FL_TRY(static_size(input, kOp, 0, 3, 1));
  const int64_t key = FL_TRY(static_size(input, kOp, 0, 3, 2));
  const int64_t heads = FL_TRY(static_size(input, kOp, 2, 3, 1));
  const int64_t value = FL_TRY(static_size(input, kOp, 2, 3, 2));
  FL_TRY(want_activation(input, kOp, 1, {groups, key}));
  FL_TRY(want_activation(input, kOp, 2, {heads, value}));
  FL_TRY(want(heads % groups == 0, kOp, "v", input.operands[2], "a multiple of " + std::to_string(groups) + " heads"));
  const bool per_head = want_activation(input, kOp, 3, {heads}).ok();
  const bool per_key = want_activation(input, kOp, 3, {heads, key}).ok();
  FL_TRY(want(per_head || per_key, kOp, "decay", input.operands[3],
              "f32[T, H] or f32[T, H, Dk] with " + std::to_string(heads) + " heads"));
  FL_TRY(want_activation(input, kOp, 4, {heads}));
  FL_TRY(want_fixed_component(input, kOp, heads * key, value));
  return Types{input.operands[2], tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput&) { return {{"heads", {1, 1, 1, 1, 1, 1}, {1, 1}, false}}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return recurrence_cost(input, results, values, 7);
}

}  // namespace

OpDef recur_delta_def() {
  OpDef def;
  def.kind = kOp;
  def.name = "recur_delta";
  def.operands = {{"q"}, {"k"}, {"v"}, {"decay"}, {"beta"}, {"state", OperandDef::Arity::kOne, true}};
  def.attributes = {component_attribute()};
  def.meaning =
      "Per sequence, token by token, head h with group g = h / (H / G), S the Dk x Dv matrix of the head in component "
      "{H, Dk, Dv}: S <- diag(exp(decay)) S, S <- S + beta k (v - S^T k)^T, y = S^T q. decay is a natural logarithm: "
      "[T, H] or one per row of S, [T, H, Dk]. q and k: f32[T, G, Dk], normalised and scaled already; v and y: f32[T, "
      "H, Dv]; beta: f32[T, H]. Results: y and the state after it.";
  def.rounding =
      "factors, products and sums in float32, in whatever order, state kept in float32; the judge in float64, state "
      "rounded once after the batch's last token";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient =
      "backwards over t: dS += q dy^T; du = beta dS^T k with u = v - S'^T k and S' the decayed state; dv = du; dk = "
      "beta "
      "dS u - S' du; dbeta = k^T dS u; dS' = dS - k du^T; ddecay = sum(S' * dS'); dS <- exp(decay) dS'";
  return def;
}

}  // namespace firstlight::ops
