// SPDX-License-Identifier: Apache-2.0
// route: a router of a mixture of experts in one step: scores of the experts, the choice among them, their weights.
// Made by compiler passes alone.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Status check_choice(const Attributes& a, int64_t experts) {
  const std::string& score = a.get_string("score");
  FL_TRY(want_attribute(score == "none" || score == "softmax" || score == "sigmoid", OpKind::kRoute, "score", score,
                        "\"none\", \"softmax\" or \"sigmoid\""));
  const std::string& after = a.get_string("after");
  FL_TRY(want_attribute(after == "none" || after == "softmax" || after == "sum", OpKind::kRoute, "after", after,
                        "\"none\", \"softmax\" or \"sum\""));
  const int64_t k = a.get_int("k");
  FL_TRY(want_attribute(k >= 1 && k <= experts, OpKind::kRoute, "k", std::to_string(k),
                        "1 to " + std::to_string(experts)));
  const int64_t groups = a.get_int("groups");
  FL_TRY(want_attribute(groups >= 1 && experts % groups == 0, OpKind::kRoute, "groups", std::to_string(groups),
                        "a divisor of " + std::to_string(experts)));
  const int64_t top_groups = a.get_int("top_groups");
  FL_TRY(want_attribute(top_groups >= 1 && top_groups <= groups, OpKind::kRoute, "top_groups",
                        std::to_string(top_groups), "1 to " + std::to_string(groups)));
  const int64_t best = a.get_int("group_best");
  return want_attribute(best >= 1 && best <= experts / groups, OpKind::kRoute, "group_best", std::to_string(best),
                        "1 to the experts of a group");
}

Result<Types> infer(const InferInput& input) {
  const Attributes& a = input.attributes;
  const tensor::Type& x = input.operands[0];
  const tensor::Type& w = input.operands[1];
  FL_TRY(want(is_f32(x) && rank(x) == 2, OpKind::kRoute, "x", x, "f32[T, K]"));
  FL_TRY(want(rank(w) == 2 && w.shape[1] == x.shape[1] && w.shape[0].is_static(), OpKind::kRoute, "weight", w,
              "[E, " + x.shape[1].to_string() + "]"));
  const size_t wanted = 2 + (a.get_bool("bias") ? 1 : 0) + (a.get_bool("correction") ? 1 : 0);
  if (input.operands.size() != wanted) {
    return invalid_argument("route: it has " + std::to_string(input.operands.size()) + " operands, wanted " +
                            std::to_string(wanted));
  }
  for (size_t i = 2; i < wanted; ++i) {
    FL_TRY(want(is_plain_float(input.operands[i]) && has_shape(input.operands[i], {w.shape[0]}), OpKind::kRoute,
                "vector", input.operands[i], "a float vector of " + w.shape[0].to_string()));
  }
  FL_TRY(check_choice(a, w.shape[0].factor));
  const tensor::Shape shape = {x.shape[0], a.get_int("k")};
  return Types{f32(shape), i32(shape)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  ShardRule rule{"tokens", std::vector<int>(input.operands.size(), -1), {0, 0}, false};
  rule.operand_axes[0] = 0;
  return {rule};
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost = elementwise_cost(input, results, values, 0);
  const auto x = static_cast<double>(tensor::num_elements(input.operands[0].shape, values));
  cost.operations = 2 * x * static_cast<double>(input.operands[1].shape[0].factor);
  return cost;
}

}  // namespace

OpDef route_def() {
  OpDef def;
  def.kind = OpKind::kRoute;
  def.name = "route";
  def.operands = {{"x"}, {"weight"}, {"more", OperandDef::Arity::kVariadic}};
  def.attributes = {
      {"k", AttributeType::kInt, true, {}, "experts chosen per token"},
      {"score", AttributeType::kString, false, std::string("none"),
       "of the products: \"none\", \"softmax\", \"sigmoid\""},
      {"bias", AttributeType::kBool, false, false, "whether operand 2 is a bias of the products"},
      {"correction", AttributeType::kBool, false, false, "whether the last operand is added to scores for the choice"},
      {"groups", AttributeType::kInt, false, int64_t{1}, "groups of experts that follow each other"},
      {"top_groups", AttributeType::kInt, false, int64_t{1}, "groups that stay in the choice"},
      {"group_best", AttributeType::kInt, false, int64_t{1}, "how many best scores make a group's, summed"},
      {"after", AttributeType::kString, false, std::string("none"),
       "of the chosen scores: \"none\", \"softmax\", \"sum\" (divided by their sum + eps)"},
      {"eps", AttributeType::kFloat, false, 0.0, "added to that sum"},
      {"scale", AttributeType::kFloat, false, 1.0, "multiplies the weights at the end"},
      {"compute", AttributeType::kString, false, std::string("auto"), "as linear's"},
  };
  def.meaning =
      "s = score(linear(x, weight, bias)); c = s + correction, -3e38 for experts outside the top_groups groups with "
      "the "
      "largest sums of their group_best largest c; idx = indices of the k largest c; w = after(s[idx]) * scale. "
      "Results "
      "w f32[T, k], idx i32[T, k], largest c first, of equal ones the lower index.";
  def.rounding = "as linear, softmax, top_k and map; float32 between them";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "of its parts; none through the indices";
  return def;
}

}  // namespace firstlight::ops
