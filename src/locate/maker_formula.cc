// SPDX-License-Identifier: Apache-2.0
// Formulas, and steps that are too much or missing around any operator.
#include "locate/draft.h"

namespace firstlight::locate {

using ops::OpKind;

namespace {

// An operand that the formula has no use for, as a term or a factor of another one.
void unused_operands(Draft& draft, const ops::Expression& formula) {
  std::set<int32_t> used;
  for (const ops::ExprTerm& term : formula.terms()) {
    if (term.op == ops::ExprOp::kInput) used.insert(term.input);
  }
  for (int32_t extra = 0; extra < static_cast<int32_t>(draft.node.operands.size()); ++extra) {
    if (used.contains(extra)) continue;
    for (const int32_t with : used) {
      for (const auto op : {ops::ExprOp::kAdd, ops::ExprOp::kMul}) {
        ops::Expression changed;
        std::vector<int32_t> inputs;
        for (int32_t i = 0; i < formula.num_inputs(); ++i) inputs.push_back(changed.input(i));
        inputs[static_cast<size_t>(with)] = changed.apply(op, inputs[static_cast<size_t>(with)], changed.input(extra));
        changed.set_result(changed.inlined(formula, inputs));
        const bool is_tensor = draft.is_weight(draft.node.operands[static_cast<size_t>(extra)]);
        draft.set(draft.here(is_tensor ? Cause::kWeight : Cause::kConfig), "expr", changed,
                  changed.to_string() + " instead of " + formula.to_string() + ", which leaves an operand out", 10);
      }
    }
  }
}

}  // namespace

void of_formula(Draft& draft) {
  const auto& formula = draft.node.attributes.get_expression("expr");
  unused_operands(draft, formula);
  for (auto& change : formula_changes(formula, draft.formula_numbers())) {
    draft.set(draft.here(Cause::kConfig), "expr", change.formula,
              change.what + " instead of " + change.instead + " in " + formula.to_string(), 20);
  }
  if (draft.node.operands.size() == 2 && draft.type(draft.node.operands[0]) == draft.type(draft.node.operands[1])) {
    draft.add(
        Cause::kWeight, "operands of " + formula.to_string() + " exchanged", "two halves or projections are swapped",
        [](ir::Graph& graph, ir::NodeId id) {
          std::swap(graph.node(id).operands[0], graph.node(id).operands[1]);
          return ok_status();
        },
        21);
  }
}

void order_of_operands(Draft& draft) {
  draft.add(
      Cause::kWeight, "parts joined in the other order", "two halves are swapped",
      [](ir::Graph& graph, ir::NodeId id) {
        auto& operands = graph.node(id).operands;
        std::reverse(operands.begin(), operands.end());
        return ok_status();
      },
      30);
}

// The node should not be there.
void left_out(Draft& draft) {
  for (size_t k = 0; k < draft.node.operands.size() && k < 3; ++k) {
    if (draft.node.results.size() != 1 || draft.type(draft.node.operands[k]) != draft.type(draft.node.results[0]))
      continue;
    if (draft.node.op == OpKind::kMap && draft.node.operands.size() == 1 && k > 0) continue;
    const Cause cause = draft.here(
        draft.node.op == OpKind::kRope ? Cause::kPosition : usual_cause(draft.graph, draft.id, draft.hints.routing));
    draft.add(
        cause, "without this " + std::string(ops::op_name(draft.node.op)), "leave the step out",
        [k](ir::Graph& graph, ir::NodeId id) { return become_identity(graph, id, k); }, 23);
  }
}

// A step that is missing, behind this one or before it.
void inserted(Draft& draft) {
  if (draft.node.results.empty() || draft.type(draft.node.results[0]).dtype != tensor::DType::kF32 ||
      draft.type(draft.node.results[0]).is_state())
    return;
  std::set<double> limits;
  for (const char* word : {"limit", "clip", "clamp"}) {
    for (const double value : draft.numbers_with(word)) limits.insert(value);
  }
  draft.words = "limit clip clamp";
  for (const double c : limits) {
    if (c <= 0) continue;
    for (const char* form : {"max(min(x0, C), -C)", "min(x0, C)"}) {
      std::string text = form;
      for (size_t at = text.find('C'); at != std::string::npos; at = text.find('C')) text.replace(at, 1, number(c));
      draft.insert("clamped: " + text, text, 26);
      if (draft.node.op != OpKind::kMap) continue;
      for (size_t k = 0; k < draft.node.operands.size(); ++k)
        draft.insert_before(k, "clamped operand: " + text, text, 25);
    }
  }
  draft.words = "min";
  for (const double c : draft.numbers_with("min")) {
    const std::string text = "max(x0, " + number(c) + ")";
    for (size_t k = 0; draft.node.op == OpKind::kMap && k < draft.node.operands.size(); ++k)
      draft.insert_before(k, "no less than " + number(c) + ": " + text, text, 27);
  }
  draft.words = "cap";
  for (const double c : draft.numbers_with("cap")) {
    if (c > 0)
      draft.insert("capped softly at " + number(c), "mul(" + number(c) + ", tanh(div(x0, " + number(c) + ")))", 26);
  }
  if (draft.node.op != OpKind::kMap) draft.insert("negated", "neg(x0)", 34);
}

}  // namespace firstlight::locate
