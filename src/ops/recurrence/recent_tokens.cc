// SPDX-License-Identifier: Apache-2.0
// recent_tokens: the ids of a token and of those before it in its sequence.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& tokens = input.operands[0];
  FL_TRY(want(is_i32(tokens) && rank(tokens) == 1, OpKind::kRecentTokens, "tokens", tokens, "i32[T]"));
  if (input.state == nullptr) return invalid_argument("recent_tokens: operand state has no declaration");
  if (input.state->kind != StateKind::kTokenHistory) {
    return invalid_argument("recent_tokens: state '" + input.state->name + "' is of kind " +
                            std::string(state_kind_name(input.state->kind)) + ", a token history wanted");
  }
  const int64_t count = input.attributes.get_int("count");
  FL_TRY(
      want_attribute(count >= 1 && count <= input.state->window, OpKind::kRecentTokens, "count", std::to_string(count),
                     "1 to " + std::to_string(input.state->window) + ", what state '" + input.state->name + "' holds"));
  return Types{i32({tokens.shape[0], tensor::Dim(count)}), tensor::Type::state()};
}

std::vector<ShardRule> shard(const InferInput&) { return {}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost;
  cost.bytes_read = type_bytes(results[0], values);
  cost.bytes_written = cost.bytes_read + type_bytes(input.operands[0], values);
  return cost;
}

}  // namespace

OpDef recent_tokens_def() {
  OpDef def;
  def.kind = OpKind::kRecentTokens;
  def.name = "recent_tokens";
  def.operands = {{"tokens"}, {"state", OperandDef::Arity::kOne, true}};
  def.attributes = {{"count", AttributeType::kInt, true, {}, "columns: the token itself and count - 1 before it"}};
  def.meaning =
      "y[t, j] = the id of the token j places before t in its sequence, y[t, 0] = tokens[t]; -1 before the first token "
      "of the sequence. The state takes the batch's ids up; the results are y and the state after it. Asking twice in "
      "one run gives the same answer.";
  def.rounding = "none: integers";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none: integers";
  return def;
}

}  // namespace firstlight::ops
