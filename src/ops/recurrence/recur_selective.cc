// SPDX-License-Identifier: Apache-2.0
// recur_selective: the selective state space of Mamba 1, a diagonal recurrence with N states per channel.
#include "ops/defs.h"
#include "ops/recurrence/fixed_state.h"

namespace firstlight::ops {
namespace {

constexpr OpKind kOp = OpKind::kRecurSelective;

Result<Types> infer(const InferInput& input) {
  const int64_t channels = FL_TRY(static_size(input, kOp, 0, 2, 1));
  const int64_t states = FL_TRY(static_size(input, kOp, 3, 2, 1));
  FL_TRY(want_activation(input, kOp, 1, {channels}));
  const tensor::Type& a = input.operands[2];
  FL_TRY(want(is_plain_float(a) && has_shape(a, {tensor::Dim(channels), tensor::Dim(states)}), kOp, "a", a,
              "a float matrix [" + std::to_string(channels) + ", " + std::to_string(states) + "]"));
  FL_TRY(want_activation(input, kOp, 3, {states}));
  FL_TRY(want_activation(input, kOp, 4, {states}));
  FL_TRY(want_fixed_component(input, kOp, channels, states));
  return Types{input.operands[0], tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput&) { return {{"channels", {1, 1, 0, -1, -1, 1}, {1, 1}, false}}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return recurrence_cost(input, results, values, 7);
}

}  // namespace

OpDef recur_selective_def() {
  OpDef def;
  def.kind = kOp;
  def.name = "recur_selective";
  def.operands = {{"x"}, {"dt"}, {"a"}, {"b"}, {"c"}, {"state", OperandDef::Arity::kOne, true}};
  def.attributes = {component_attribute()};
  def.meaning =
      "Per sequence, token by token, S the component {C, N} of the state: S[c, n] <- exp(dt[c] a[c, n]) S[c, n] + "
      "dt[c] "
      "b[n] x[c], y[c] = sum over n of c[n] S[c, n]. x, dt and y: f32[T, C]; a: [C, N], negative numbers as a rule; b "
      "and c: f32[T, N]. Results: y and the state after it.";
  def.rounding =
      "products, exponentials and sums in float32, state kept in float32; the judge in float64, state rounded once "
      "after "
      "the batch's last token";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient =
      "backwards over t: dS += dy c; dc = sum_c dy S; db = sum_c dt x dS; dx = dt sum_n b dS; ddt = sum_n (a exp(dt a) "
      "S_before + b x) dS; da = dt exp(dt a) S_before dS; dS <- exp(dt a) dS";
  return def;
}

}  // namespace firstlight::ops
