// SPDX-License-Identifier: Apache-2.0
// attend: queries against the keys and values of a state.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

struct Parts {
  const StateComponent* key = nullptr;
  const StateComponent* value = nullptr;
  int64_t value_width = 0;
};

Result<const StateComponent*> component(const InferInput& input, std::string_view attribute) {
  const std::string& name = input.attributes.get_string(attribute);
  const int index = input.state->component_index(name);
  FL_TRY(want_attribute(index >= 0, OpKind::kAttend, attribute, "\"" + name + "\"",
                        "a component of state '" + input.state->name + "'"));
  return &input.state->components[static_cast<size_t>(index)];
}

Result<Parts> parts(const InferInput& input) {
  if (input.state == nullptr) return invalid_argument("attend: operand state has no declaration");
  Parts p;
  p.key = FL_TRY(component(input, "key"));
  p.value = FL_TRY(component(input, "value"));
  p.value_width = input.attributes.get_int("value_width");
  FL_TRY(want_attribute(p.value_width >= 0 && p.value_width <= p.value->width, OpKind::kAttend, "value_width",
                        std::to_string(p.value_width), "0 to " + std::to_string(p.value->width)));
  if (p.value_width == 0) p.value_width = p.value->width;
  FL_TRY(want_attribute(p.key->heads == p.value->heads, OpKind::kAttend, "value", "\"" + p.value->name + "\"",
                        "as many heads as component '" + p.key->name + "'"));
  return p;
}

Result<Types> infer(const InferInput& input) {
  const tensor::Type& q = input.operands[0];
  const Parts p = FL_TRY(parts(input));
  FL_TRY(want(is_f32(q) && rank(q) == 3 && q.shape[2] == tensor::Dim(p.key->width), OpKind::kAttend, "q", q,
              "f32[T, H, " + std::to_string(p.key->width) + "]"));
  const tensor::Dim heads = q.shape[1];
  FL_TRY(want(heads.is_static() && heads.factor > 0 && p.key->heads > 0 && heads.factor % p.key->heads == 0,
              OpKind::kAttend, "q", q, "a multiple of " + std::to_string(p.key->heads) + " heads"));
  if (const tensor::Type* sinks = optional_operand(input, 2)) {
    FL_TRY(want(is_plain_float(*sinks) && has_shape(*sinks, {heads}), OpKind::kAttend, "sinks", *sinks,
                "a float vector of " + heads.to_string()));
  }
  const int64_t window = input.attributes.get_int("window");
  FL_TRY(want_attribute(window >= 0, OpKind::kAttend, "window", std::to_string(window), "0 or more"));
  const Expression& score = input.attributes.get_expression("score");
  FL_TRY(want_attribute(score.num_inputs() <= 4 && !score.is_for_integers(), OpKind::kAttend, "score",
                        score.to_string(),
                        "a formula in x0 (score), x1 (query position), x2 (key position), x3 (head)"));
  return Types{f32({q.shape[0], heads, tensor::Dim(p.value_width)})};
}

std::vector<ShardRule> shard(const InferInput& input) {
  const Expression& score = input.attributes.get_expression("score");
  if (score.num_inputs() > 3) return {};  // the formula sees head numbers
  ShardRule rule{"heads", {1, 1}, {1}, false};
  if (input.operands.size() > 2) rule.operand_axes.push_back(0);
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
      {"score", AttributeType::kExpression, false, Expression{},
       "of x0 score after scale, x1 query position, x2 key position, x3 head; empty: x0"},
  };
  def.meaning =
      "y[t, h, :] = sum over visible positions j of p_j v[j, h / (H / kv heads), :], p = softmax over j of "
      "score(scale q[t,h,:]·k[j,..,:]); with sinks, exp(sinks[h]) joins the denominator. The state holds the batch's "
      "own "
      "rows already. Not causal: every row the sequence has (with a window: positions above i-window).";
  def.rounding = "scores, exponentials and sums in float32; the judge in float64, rounded once";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dv = p^T dy; dp = dy v^T; ds = p (dp - sum(p dp)); dq = scale ds k; dk = scale ds^T q";
  return def;
}

}  // namespace firstlight::ops
