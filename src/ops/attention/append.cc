// SPDX-License-Identifier: Apache-2.0
// append: writes the batch's rows into a state.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

// Whether an axis has one place per row that the batch adds to the state.
bool counts_rows(const tensor::Dim& dim, const StateDecl& state) {
  if (state.kind == StateKind::kRateLog) return dim.is_static() || dim == tensor::Dim::groups(state.rate);
  return dim.symbol != tensor::Symbol::kGroups;
}

Result<Types> infer(const InferInput& input) {
  if (input.state == nullptr) return invalid_argument("append: operand state has no declaration");
  const std::vector<StateComponent>& components = input.state->components;
  if (input.operands.size() != components.size() + 1) {
    return invalid_argument("append: it has " + std::to_string(input.operands.size() - 1) + " rows operands, wanted " +
                            std::to_string(components.size()) + ", one per component of state '" + input.state->name +
                            "'");
  }
  for (size_t i = 0; i < components.size(); ++i) {
    const StateComponent& c = components[i];
    const tensor::Type& rows = input.operands[i + 1];
    const std::string row = input.state->kind == StateKind::kRateLog ? "G" + std::to_string(input.state->rate) : "T";
    const std::string wanted = "f32[" + row + ", " + std::to_string(c.heads) + ", " + std::to_string(c.width) + "]" +
                               (c.heads == 1 ? " or f32[" + row + ", " + std::to_string(c.width) + "]" : "");
    const std::string name = "rows (component '" + c.name + "')";
    FL_TRY(want(is_f32(rows) && rank(rows) >= 2 && counts_rows(rows.shape[0], *input.state), OpKind::kAppend, name,
                rows, wanted));
    const bool by_heads = has_shape(rows, {rows.shape[0], tensor::Dim(c.heads), tensor::Dim(c.width)});
    const bool flat = c.heads == 1 && has_shape(rows, {rows.shape[0], tensor::Dim(c.width)});
    FL_TRY(want(by_heads || flat, OpKind::kAppend, name, rows, wanted));
  }
  return Types{tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput& input) {
  ShardRule rule{"heads", std::vector<int>(input.operands.size(), 1), {1}, false};
  for (const tensor::Type& rows : input.operands.subspan(1)) {
    if (rank(rows) != 3) return {};
  }
  return {rule};
}

Cost cost(const InferInput& input, std::span<const tensor::Type>, const tensor::SymbolValues& values) {
  Cost cost;
  for (const tensor::Type& operand : input.operands) cost.bytes_read += type_bytes(operand, values);
  cost.bytes_written = cost.bytes_read;
  return cost;
}

}  // namespace

OpDef append_def() {
  OpDef def;
  def.kind = OpKind::kAppend;
  def.name = "append";
  def.operands = {{"state", OperandDef::Arity::kOne, true}, {"rows", OperandDef::Arity::kVariadic}};
  def.meaning =
      "Row r of the batch, token i of its sequence, becomes row start_position + i of that sequence's state; one "
      "operand "
      "per component, f32[T, heads, width] (or [T, width] with one head). Of a log with a row per r tokens the rows "
      "are "
      "the groups that the batch completes, [G<r>, ...] as window_emit orders them. The result is the state after it.";
  def.rounding = "once, to nearest even, into the type the plan stores the component in";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "d rows = the state's gradient at those rows";
  return def;
}

}  // namespace firstlight::ops
