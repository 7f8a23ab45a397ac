// SPDX-License-Identifier: Apache-2.0
// recur_dplr: a diagonal plus low-rank transition, as in RWKV 7.
#include "ops/defs.h"
#include "ops/recurrence/fixed_state.h"

namespace firstlight::ops {
namespace {

constexpr OpKind kOp = OpKind::kRecurDplr;

Result<Types> infer(const InferInput& input) {
  const int64_t heads = FL_TRY(static_size(input, kOp, 0, 3, 1));
  const int64_t key = FL_TRY(static_size(input, kOp, 0, 3, 2));
  const int64_t value = FL_TRY(static_size(input, kOp, 3, 3, 2));
  for (const size_t operand : {1u, 2u, 4u, 5u}) FL_TRY(want_activation(input, kOp, operand, {heads, key}));
  FL_TRY(want_activation(input, kOp, 3, {heads, value}));
  FL_TRY(want_fixed_component(input, kOp, heads * value, key));
  return Types{input.operands[3], tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput&) { return {{"heads", {1, 1, 1, 1, 1, 1, 1}, {1, 1}, false}}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return recurrence_cost(input, results, values, 9);
}

}  // namespace

OpDef recur_dplr_def() {
  OpDef def;
  def.kind = kOp;
  def.name = "recur_dplr";
  def.operands = {{"r"}, {"w"}, {"k"}, {"v"}, {"a"}, {"b"}, {"state", OperandDef::Arity::kOne, true}};
  def.attributes = {component_attribute()};
  def.meaning =
      "Per sequence, token by token and head by head, S the Dv x Dk matrix of the head in component {H, Dv, Dk}: S <- "
      "S "
      "diag(exp(w)) + (S a) b^T + v k^T with S a of the state before the token, y = S r. w is a natural logarithm. r, "
      "w, "
      "k, a and b: f32[T, H, Dk]; v and y: f32[T, H, Dv]. Results: y and the state after it.";
  def.rounding =
      "factors, products and sums in float32, state kept in float32; the judge in float64, state rounded once after "
      "the "
      "batch's last token";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient =
      "backwards over t: dS += dy r^T; dr = S^T dy; dv = dS k; dk = dS^T v; db = dS^T (S_before a); da = S_before^T "
      "(dS "
      "b); dw = exp(w) sum(S_before * dS) over rows; dS <- dS diag(exp(w)) + (dS b) a^T";
  return def;
}

}  // namespace firstlight::ops
