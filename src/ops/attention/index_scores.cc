// SPDX-License-Identifier: Apache-2.0
// index_scores: which rows of a state a query should attend to, by cheap scores of an indexer of its own (the
// "lightning indexer" of DeepSeek-V3.2, arXiv 2512.02556; its block form as in MiniMax M3; inside the blocks that
// another choice named, as DeepSeek-V4.1 chooses in two levels). Scores and selection are one operator since the number
// of rows is no static size.
#include "ops/attention/index_scores.h"

#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Status check_state(const InferInput& input) {
  if (input.state == nullptr) return invalid_argument("index_scores: operand state has no declaration");
  const StateDecl& state = *input.state;
  const std::string& key = input.attributes.get_string("key");
  const int index = state.component_index(key);
  FL_TRY(want_attribute(index >= 0, OpKind::kIndexScores, "key", "\"" + key + "\"",
                        "a component of state '" + state.name + "'"));
  const bool is_log = state.kind == StateKind::kAppendLog || state.kind == StateKind::kRateLog;
  const StateComponent& component = state.components[static_cast<size_t>(index)];
  FL_TRY(want_attribute(is_log && component.heads == 1, OpKind::kIndexScores, "key", "\"" + key + "\"",
                        "a component with one head of a log that keeps all rows"));
  const tensor::Type& q = input.operands[0];
  return want(is_f32(q) && rank(q) == 3 && q.shape[1].is_static() && q.shape[2] == tensor::Dim(component.width),
              OpKind::kIndexScores, "q", q, "f32[T, H, " + std::to_string(component.width) + "]");
}

Status check_numbers(const Attributes& attributes) {
  constexpr std::pair<const char*, int64_t> kLeast[] = {
      {"top", 1}, {"block", 1}, {"recent", 0}, {"first", 0}, {"within_block", 0}};
  for (const auto& [name, least] : kLeast) {
    const int64_t value = attributes.get_int(name);
    FL_TRY(want_attribute(value >= least && value <= (int64_t{1} << 24), OpKind::kIndexScores, name,
                          std::to_string(value), std::to_string(least) + " or more"));
  }
  const int64_t first = attributes.get_int("first"), top = attributes.get_int("top");
  const int64_t most = top - attributes.get_int("recent");
  FL_TRY(want_attribute(first == 0 || first <= most, OpKind::kIndexScores, "first", std::to_string(first),
                        "top less recent, " + std::to_string(most) + ", or less"));
  const int64_t candidate = attributes.get_int("within_block"), block = attributes.get_int("block");
  return want_attribute(candidate % block == 0, OpKind::kIndexScores, "within_block", std::to_string(candidate),
                        "a multiple of block, " + std::to_string(block));
}

Result<Types> infer(const InferInput& input) {
  FL_TRY(check_state(input));
  FL_TRY(check_numbers(input.attributes));
  const tensor::Type& q = input.operands[0];
  const tensor::Dim groups = input.attributes.get_bool("per_head") ? q.shape[1] : tensor::Dim(1);
  const IndexScoresOperands at = index_scores_operands(input.attributes, input.operands.size());
  if (at.weights >= 0) {
    const tensor::Type& weights = input.operands[static_cast<size_t>(at.weights)];
    FL_TRY(want(is_f32(weights) && has_shape(weights, {q.shape[0], q.shape[1]}), OpKind::kIndexScores, "weights",
                weights, "f32[T, " + q.shape[1].to_string() + "]"));
  }
  if (at.within >= 0) {
    FL_TRY(want_attribute(at.within > 1, OpKind::kIndexScores, "within_block",
                          std::to_string(input.attributes.get_int("within_block")), "an operand `within`, or 0"));
    const tensor::Type& within = input.operands[static_cast<size_t>(at.within)];
    const bool fits = within.dtype == tensor::DType::kI32 && rank(within) == 3 && within.shape[0] == q.shape[0] &&
                      (within.shape[1] == groups || within.shape[1] == tensor::Dim(1)) && within.shape[2].is_static();
    FL_TRY(want(fits, OpKind::kIndexScores, "within", within, "i32[T, 1 or " + groups.to_string() + ", K]"));
  }
  return Types{i32({q.shape[0], groups, tensor::Dim(input.attributes.get_int("top"))})};
}

std::vector<ShardRule> shard(const InferInput& input) {
  if (!input.attributes.get_bool("per_head")) return {};
  ShardRule rule{"heads", {1, -1}, {1}, false};
  const IndexScoresOperands at = index_scores_operands(input.attributes, input.operands.size());
  if (at.weights >= 0) rule.operand_axes.push_back(1);
  if (at.within >= 0) {
    const bool shared = input.operands[static_cast<size_t>(at.within)].shape[1] == tensor::Dim(1);
    rule.operand_axes.push_back(shared ? -1 : 1);
  }
  return {rule};
}

// Against the batch's own tokens; rows that were in the state before come on top, as for attend.
Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost = elementwise_cost(input, results, values, 0);
  const auto q = static_cast<double>(tensor::num_elements(input.operands[0].shape, values));
  cost.operations = 2 * q * static_cast<double>(values.tokens) / 2;
  return cost;
}

}  // namespace

IndexScoresOperands index_scores_operands(const Attributes& attributes, size_t num_operands) {
  IndexScoresOperands at;
  const int count = static_cast<int>(num_operands);
  if (attributes.get_int("within_block") > 0) at.within = count - 1;
  if ((at.within >= 0 ? at.within : count) > 2) at.weights = 2;
  return at;
}

OpDef index_scores_def() {
  OpDef def;
  def.kind = OpKind::kIndexScores;
  def.name = "index_scores";
  def.operands = {{"q"},
                  {"state", OperandDef::Arity::kOne, true},
                  {"weights", OperandDef::Arity::kOptional},
                  {"within", OperandDef::Arity::kOptional}};
  def.attributes = {
      {"key", AttributeType::kString, true, {}, "component of the state"},
      {"top", AttributeType::kInt, true, {}, "rows (or blocks) named per query"},
      {"relu", AttributeType::kBool, false, true, "products below 0 count as 0"},
      {"per_head", AttributeType::kBool, false, false, "each head selects for itself; else their sum does"},
      {"block", AttributeType::kInt, false, int64_t{1}, "rows that are named together; the highest score counts"},
      {"recent", AttributeType::kInt, false, int64_t{0}, "last visible blocks that are always among the named"},
      {"first", AttributeType::kInt, false, int64_t{0}, "first blocks that are always among the named"},
      {"within_block", AttributeType::kInt, false, int64_t{0},
       "rows of a block that `within`, the last operand, names; 0: there is no such operand"},
  };
  def.meaning =
      "I[t, j] = sum over heads h of weights[t, h] relu(q[t, h, :]·k[j, :]) for the rows j that token t may see (its "
      "own and earlier ones; of a log with a row per r tokens those with (j + 1) r <= position + 1), weights 1 where "
      "absent. The result i32[T, G, top] names the `top` highest in ascending order, then -1: G is 1, or H with "
      "per_head, where each head has its own sum of one. With block b it names blocks, floor(j / b), whose score is "
      "the highest of their visible rows. With `within` i32[T, 1 or G, K] only rows of the blocks of within_block rows "
      "that it names (-1: none) may be named, and those that `first` and `recent` name anyway. Of equal scores the "
      "lower number wins; NaN counts as the highest.";
  def.rounding = "scores in float32 (the judge in float64); the result is exact";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none: the selection is a constant";
  return def;
}

}  // namespace firstlight::ops
