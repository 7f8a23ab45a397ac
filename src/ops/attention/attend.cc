// SPDX-License-Identifier: Apache-2.0
// attend and attend_segments: queries against the keys and values of one state, or of several under one softmax.
#include "ops/attention/segments.h"
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

struct Parts {
  const StateComponent* key = nullptr;
  const StateComponent* value = nullptr;
  int64_t value_width = 0;
};

Result<const StateComponent*> component(OpKind kind, const StateDecl& state, std::string_view attribute,
                                        const std::string& name) {
  const int index = state.component_index(name);
  FL_TRY(want_attribute(index >= 0, kind, attribute, "\"" + name + "\"", "a component of state '" + state.name + "'"));
  return &state.components[static_cast<size_t>(index)];
}

Status check_rules(OpKind kind, const KeySegment& segment, const StateDecl& state) {
  const bool is_log =
      state.kind == StateKind::kAppendLog || state.kind == StateKind::kWindowLog || state.kind == StateKind::kRateLog;
  if (!is_log) {
    return invalid_argument(std::string(op_name(kind)) + ": state '" + state.name + "' is of kind " +
                            std::string(state_kind_name(state.kind)) + ", wanted a log");
  }
  const bool by_position = segment.window > 0 || segment.chunk > 0;
  FL_TRY(want_attribute(!by_position || state.kind != StateKind::kRateLog, kind, "window, chunk",
                        std::to_string(segment.window) + ", " + std::to_string(segment.chunk),
                        "0 for state '" + state.name + "', which has a row for several tokens"));
  return want_attribute(segment.mask.num_inputs() <= 2 && !segment.mask.is_for_integers(), kind, "mask",
                        segment.mask.to_string(), "a formula in x0 (query position), x1 (key position)");
}

Result<Parts> parts(OpKind kind, const KeySegment& segment, const StateDecl& state, int64_t value_width) {
  FL_TRY(check_rules(kind, segment, state));
  Parts p;
  p.key = FL_TRY(component(kind, state, "key", segment.key));
  p.value = FL_TRY(component(kind, state, "value", segment.value));
  p.value_width = value_width;
  FL_TRY(want_attribute(p.value_width >= 0 && p.value_width <= p.value->width, kind, "value_width",
                        std::to_string(p.value_width), "0 to " + std::to_string(p.value->width)));
  if (p.value_width == 0) p.value_width = p.value->width;
  FL_TRY(want_attribute(p.key->heads == p.value->heads, kind, "value", "\"" + p.value->name + "\"",
                        "as many heads as component '" + p.key->name + "'"));
  return p;
}

Status check_select(const InferInput& input, const KeySegment& segment, int64_t kv_heads) {
  const tensor::Type& rows = input.operands[static_cast<size_t>(segment.select_operand)];
  const bool fits = is_i32(rows) && rank(rows) == 3 && rows.shape[0] == input.operands[0].shape[0] &&
                    (rows.shape[1] == tensor::Dim(1) || rows.shape[1] == tensor::Dim(kv_heads)) &&
                    rows.shape[2].is_static();
  return want(fits, OpKind::kAttendSegments, "select", rows,
              "i32[T, 1 or " + std::to_string(kv_heads) + ", K], row numbers per query");
}

// Holds the operands against the segments; the width of the values.
Result<int64_t> check_segments(const InferInput& input, OpKind kind, const KeySegments& all) {
  const tensor::Type& q = input.operands[0];
  if (static_cast<int>(input.operands.size()) != all.num_operands || input.states.size() != all.segments.size()) {
    return invalid_argument(std::string(op_name(kind)) + ": " + std::to_string(input.operands.size()) +
                            " operands with " + std::to_string(input.states.size()) + " states, wanted " +
                            std::to_string(all.num_operands) + " with " + std::to_string(all.segments.size()));
  }
  int64_t width = 0;
  int64_t kv_heads = 0;
  for (size_t i = 0; i < all.segments.size(); ++i) {
    const KeySegment& segment = all.segments[i];
    FL_TRY(want(input.operands[static_cast<size_t>(segment.state_operand)].is_state(), kind, "state",
                input.operands[static_cast<size_t>(segment.state_operand)], "a state"));
    const Parts p = FL_TRY(parts(kind, segment, *input.states[i], input.attributes.get_int("value_width")));
    FL_TRY(want(is_f32(q) && rank(q) == 3 && q.shape[2] == tensor::Dim(p.key->width), kind, "q", q,
                "f32[T, H, " + std::to_string(p.key->width) + "]"));
    const tensor::Dim heads = q.shape[1];
    FL_TRY(want(heads.is_static() && heads.factor > 0 && p.key->heads > 0 && heads.factor % p.key->heads == 0, kind,
                "q", q, "a multiple of " + std::to_string(p.key->heads) + " heads"));
    if (segment.select_operand >= 0) FL_TRY(check_select(input, segment, p.key->heads));
    FL_TRY(want_attribute(i == 0 || (kv_heads == p.key->heads && width == p.value_width), kind, "keys, values",
                          "\"" + segment.key + "\", \"" + segment.value + "\"",
                          "as many heads and value columns as in the first segment"));
    kv_heads = p.key->heads;
    width = p.value_width;
  }
  return width;
}

Result<Types> infer_kind(const InferInput& input, OpKind kind) {
  if (input.states.empty()) return invalid_argument(std::string(op_name(kind)) + ": operand state has no declaration");
  const tensor::Type& q = input.operands[0];
  const KeySegments all = FL_TRY(key_segments(kind, input.attributes, input.operands.size()));
  const int64_t width = FL_TRY(check_segments(input, kind, all));
  const tensor::Dim heads = q.shape[1];
  if (all.sinks_operand >= 0) {
    const tensor::Type& sinks = input.operands[static_cast<size_t>(all.sinks_operand)];
    FL_TRY(want(is_plain_float(sinks) && has_shape(sinks, {heads}), kind, "sinks", sinks,
                "a float vector of " + heads.to_string()));
  }
  const Expression& score = input.attributes.get_expression("score");
  FL_TRY(want_attribute(score.num_inputs() <= 4 && !score.is_for_integers(), kind, "score", score.to_string(),
                        "a formula in x0 (score), x1 (query position), x2 (key position), x3 (head)"));
  return Types{f32({q.shape[0], heads, tensor::Dim(width)})};
}

Result<Types> infer(const InferInput& input) { return infer_kind(input, OpKind::kAttend); }
Result<Types> infer_segments(const InferInput& input) { return infer_kind(input, OpKind::kAttendSegments); }

std::vector<ShardRule> shard(const InferInput& input) {
  const Expression& score = input.attributes.get_expression("score");
  if (score.num_inputs() > 3) return {};  // the formula sees head numbers
  ShardRule rule{"heads", {1, 1}, {1}, false};
  if (input.operands.size() > 2) rule.operand_axes.push_back(0);
  return {rule};
}

std::vector<ShardRule> shard_segments(const InferInput& input) {
  const Expression& score = input.attributes.get_expression("score");
  const auto all = key_segments(OpKind::kAttendSegments, input.attributes, input.operands.size());
  if (score.num_inputs() > 3 || !all.ok()) return {};
  ShardRule rule{"heads", std::vector<int>(input.operands.size(), 1), {1}, false};
  for (const KeySegment& segment : all->segments) {
    if (segment.select_operand < 0) continue;
    const auto operand = static_cast<size_t>(segment.select_operand);
    if (input.operands[operand].shape[1] == tensor::Dim(1)) rule.operand_axes[operand] = -1;
  }
  if (all->sinks_operand >= 0) rule.operand_axes[static_cast<size_t>(all->sinks_operand)] = 0;
  return {rule};
}

// The batch's own tokens against each other; what lies in the state before adds 2 (Dk + Dv) H operations and the bytes
// of one row per token and earlier position, which the planner knows.
Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost = elementwise_cost(input, results, values, 0);
  const auto q = static_cast<double>(tensor::num_elements(input.operands[0].shape, values));
  const auto out = static_cast<double>(tensor::num_elements(results[0].shape, values));
  const double keys = static_cast<double>(values.tokens) / (input.attributes.get_bool("causal") ? 2 : 1);
  cost.operations = 2 * keys * (q + out);
  return cost;
}

// Selected rows count as they are; of the other segments the batch's own tokens, as above.
Cost cost_segments(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost = elementwise_cost(input, results, values, 0);
  const auto q = static_cast<double>(tensor::num_elements(input.operands[0].shape, values));
  const auto out = static_cast<double>(tensor::num_elements(results[0].shape, values));
  const auto all = key_segments(OpKind::kAttendSegments, input.attributes, input.operands.size());
  for (size_t i = 0; all.ok() && i < all->segments.size(); ++i) {
    const KeySegment& segment = all->segments[i];
    double keys = static_cast<double>(values.tokens) / 2;
    if (segment.select_operand >= 0) {
      keys = static_cast<double>(input.operands[static_cast<size_t>(segment.select_operand)].shape[2].factor *
                                 segment.select_block);
    } else if (segment.window > 0) {
      keys = std::min(keys, static_cast<double>(segment.window));
    }
    cost.operations += 2 * keys * (q + out);
  }
  return cost;
}

constexpr std::string_view kRounding = "scores, exponentials and sums in float32; the judge in float64, rounded once";
constexpr std::string_view kGradient =
    "dv = p^T dy; dp = dy v^T; ds = p (dp - sum(p dp)); dq = scale ds k; dk = scale ds^T q";

}  // namespace

OpDef attend_def() {
  OpDef def;
  def.kind = OpKind::kAttend;
  def.name = "attend";
  def.operands = {{"q"}, {"state", OperandDef::Arity::kOne, true}, {"sinks", OperandDef::Arity::kOptional}};
  def.attributes = {
      {"scale", AttributeType::kFloat, true, {}, "multiplies q·k"},
      {"key", AttributeType::kString, true, {}, "component of the state"},
      {"value", AttributeType::kString, true, {}, "component of the state; may be the key's"},
      {"value_width", AttributeType::kInt, false, int64_t{0}, "first columns of the value component; 0: all"},
      {"causal", AttributeType::kBool, false, true, "token i sees positions up to its own"},
      {"window", AttributeType::kInt, false, int64_t{0}, "token i sees positions i-window+1 .. i; 0: all"},
      {"chunk", AttributeType::kInt, false, int64_t{0}, "token i sees positions of floor(i / chunk) alone; 0: all"},
      {"mask", AttributeType::kExpression, false, Expression{},
       "of x0 query position, x1 key position: 0 hides the row; empty: hides none"},
      {"score", AttributeType::kExpression, false, Expression{},
       "of x0 score after scale, x1 query position, x2 key position, x3 head; empty: x0"},
  };
  def.meaning =
      "y[t, h, :] = sum over visible positions j of p_j v[j, h / (H / kv heads), :], p = softmax over j of "
      "score(scale q[t,h,:]·k[j,..,:]); with sinks, exp(sinks[h]) joins the denominator. The state holds the batch's "
      "own rows already. Not causal: every row the sequence has (with a window: positions above i-window). A row must "
      "pass causal, window, chunk and mask together; a query that sees no row (or scores of -inf alone) and has no "
      "sink gives zeros. Row j of a "
      "log with a row per r tokens stands for position j r and is visible to token i when (j + 1) r <= i + 1.";
  def.rounding = kRounding;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = kGradient;
  return def;
}

OpDef attend_segments_def() {
  OpDef def;
  def.kind = OpKind::kAttendSegments;
  def.name = "attend_segments";
  def.operands = {{"q"}, {"segments", OperandDef::Arity::kVariadic, false, true}};
  def.attributes = {
      {"scale", AttributeType::kFloat, true, {}, "multiplies q·k"},
      {"keys", AttributeType::kString, true, {}, "per segment a component of its state: \"k, latent\""},
      {"values", AttributeType::kString, true, {}, "per segment a component of its state; may be the key's"},
      {"value_width", AttributeType::kInt, false, int64_t{0}, "first columns of the value components; 0: all"},
      {"causal", AttributeType::kInts, false, std::vector<int64_t>{}, "per segment 1 or 0; none: all 1"},
      {"windows", AttributeType::kInts, false, std::vector<int64_t>{}, "per segment as attend's window; none: all 0"},
      {"chunks", AttributeType::kInts, false, std::vector<int64_t>{}, "per segment as attend's chunk; none: all 0"},
      {"from", AttributeType::kInts, false, std::vector<int64_t>{}, "per segment its first row; none: all 0"},
      {"until", AttributeType::kInts, false, std::vector<int64_t>{},
       "per segment the row it ends in front of; 0: none"},
      {"select", AttributeType::kInts, false, std::vector<int64_t>{},
       "per segment 0: all rows; b: an operand behind its state names blocks of b rows; none: all 0"},
      {"masks", AttributeType::kExpressions, false, std::vector<Expression>{}, "per segment as attend's mask; or none"},
      {"sinks", AttributeType::kBool, false, false, "the last operand is f32[H] of sinks"},
      {"score", AttributeType::kExpression, false, Expression{}, "as attend's"},
  };
  def.meaning =
      "As attend, with one softmax over the union of the segments' visible rows. Operands behind q: per segment its "
      "state, then, where select says so, rows i32[T, G, K]: the only rows (or blocks of rows) of that segment that "
      "the "
      "query may see, each named once, -1 for none; G is 1 or the number of key/value heads. Last the sinks.";
  def.rounding = kRounding;
  def.infer = infer_segments;
  def.shard = shard_segments;
  def.cost = cost_segments;
  def.gradient = kGradient;
  return def;
}

}  // namespace firstlight::ops
