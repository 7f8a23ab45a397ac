// SPDX-License-Identifier: Apache-2.0
// recur_elementwise: a gated sum per channel, the recurrence of RG-LRU and its kin.
#include "ops/defs.h"
#include "ops/recurrence/fixed_state.h"

namespace firstlight::ops {
namespace {

constexpr OpKind kOp = OpKind::kRecurElementwise;

Result<Types> infer(const InferInput& input) {
  const int64_t channels = FL_TRY(static_size(input, kOp, 0, 2, 1));
  FL_TRY(want_activation(input, kOp, 1, {channels}));
  FL_TRY(want_fixed_component(input, kOp, 1, channels));
  return Types{input.operands[0], tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput&) { return {{"channels", {1, 1, 1}, {1, 1}, false}}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return recurrence_cost(input, results, values, 2);
}

}  // namespace

OpDef recur_elementwise_def() {
  OpDef def;
  def.kind = kOp;
  def.name = "recur_elementwise";
  def.operands = {{"a"}, {"b"}, {"state", OperandDef::Arity::kOne, true}};
  def.attributes = {component_attribute()};
  def.meaning =
      "Per sequence, token by token, h the component {C} of the state: h <- a[t] h + b[t], y[t] = h. All f32[T, C]. "
      "Results: y and the state after it.";
  def.rounding = "in float32, state kept in float32; the judge in float64, state rounded once after the last token";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "backwards over t: dh += dy; da = h_before dh; db = dh; dh <- a dh";
  return def;
}

}  // namespace firstlight::ops
