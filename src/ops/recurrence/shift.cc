// SPDX-License-Identifier: Apache-2.0
// shift: every token's row becomes the row of the token before it in its sequence.
#include "ops/defs.h"
#include "ops/recurrence/fixed_state.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const int64_t width = FL_TRY(static_size(input, OpKind::kShift, 0, 2, 1));
  FL_TRY(want_fixed_component(input, OpKind::kShift, 1, width));
  return Types{input.operands[0], tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput&) { return {{"channels", {1, 1}, {1, 1}, false}}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return recurrence_cost(input, results, values, 0);
}

}  // namespace

OpDef shift_def() {
  OpDef def;
  def.kind = OpKind::kShift;
  def.name = "shift";
  def.operands = {{"x"}, {"state", OperandDef::Arity::kOne, true}};
  def.attributes = {component_attribute()};
  def.meaning =
      "y[t, :] = x[t - 1, :] within the sequence; its first row in the batch gets the component {C} of the state, "
      "which "
      "holds the last row of the run before (0 when the sequence starts) and becomes the last row of this one. "
      "Results: "
      "y and the state after it.";
  def.rounding = "none: values move, the state is float32";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx[t] = dy[t + 1] within the sequence";
  return def;
}

}  // namespace firstlight::ops
