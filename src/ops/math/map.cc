// SPDX-License-Identifier: Apache-2.0
// map: any element-wise formula over broadcast operands.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const Expression& expr = input.attributes.get_expression("expr");
  const std::string count = std::to_string(input.operands.size());
  FL_TRY(want_attribute(!expr.empty() && static_cast<size_t>(expr.num_inputs()) <= input.operands.size(), OpKind::kMap,
                        "expr", expr.to_string(), "a formula in at most " + count + " inputs"));
  FL_TRY(want_attribute(!expr.is_for_integers(), OpKind::kMap, "expr", expr.to_string(), "imap for xor and mod"));
  tensor::Shape shape;
  for (size_t i = 0; i < input.operands.size(); ++i) {
    const tensor::Type& x = input.operands[i];
    const std::string name = "x" + std::to_string(i);
    FL_TRY(want(is_plain(x), OpKind::kMap, name, x, "a row-major tensor of a plain type"));
    FL_TRY(want(broadcast_onto(shape, x.shape), OpKind::kMap, name, x,
                "a shape that broadcasts with " + tensor::shape_to_string(shape)));
  }
  return Types{f32(std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  const auto results = infer(input);
  if (!results.ok()) return {};
  const int result_rank = rank((*results)[0]);
  std::vector<ShardRule> rules;
  for (int axis = 0; axis < result_rank; ++axis) {
    ShardRule rule{"axis", {}, {axis}, false};
    for (const tensor::Type& x : input.operands) {
      const int own = axis - (result_rank - rank(x));
      rule.operand_axes.push_back(own >= 0 && x.shape[static_cast<size_t>(own)] != tensor::Dim(1) ? own : -1);
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const auto terms = input.attributes.get_expression("expr").terms();
  double operations = 0;
  for (const ExprTerm& term : terms) operations += expr_op_arity(term.op) > 0 ? 1 : 0;
  return elementwise_cost(input, results, values, operations);
}

}  // namespace

OpDef map_def() {
  OpDef def;
  def.kind = OpKind::kMap;
  def.name = "map";
  def.operands = {{"x"}, {"more", OperandDef::Arity::kVariadic}};
  def.attributes = {{"expr", AttributeType::kExpression, true, {}, "the formula; x0, x1, … are the operands"}};
  def.meaning =
      "y = expr(x0, x1, …) element by element, shapes broadcast right-aligned as in NumPy; operands of any plain type "
      "are read as float32 values, y is float32.";
  def.rounding =
      "the formula is one unit: fast forms evaluate each term in float32, the judge in float64 with one rounding at "
      "the "
      "end";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "by the chain rule over the formula's terms, summed over broadcast axes";
  return def;
}

}  // namespace firstlight::ops
