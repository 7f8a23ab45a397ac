// SPDX-License-Identifier: Apache-2.0
// Routers: score function, normalisation, scale, correction bias; weights of experts.
#include "locate/draft.h"

namespace firstlight::locate {

using ops::OpKind;

namespace {

Status divide_by_sum(ir::Graph& graph, ir::NodeId id) {
  const ir::ValueId value = graph.node(id).results[0];
  FL_TRY(wrap_result(graph, id, 0, {map_step("x0")}));
  const ir::NodeId last = graph.value(value).producer;
  const ir::ValueId before = graph.node(last).operands[0];
  EditStep sum{.op = OpKind::kReduce, .attributes = {}};
  sum.attributes.set("op", std::string("sum"));
  sum.attributes.set("axis", int64_t{-1});
  sum.attributes.set("keep", true);
  FL_TRY(wrap_operand(graph, last, 0, {sum}));
  const ir::ValueId total = graph.node(last).operands[0];
  EditStep divide = map_step("div(x0, x1)");
  graph.node(last).operands = {before, total};
  graph.node(last).attributes = divide.attributes;
  return ok_status();
}

// Scores with the correction in them, or without.
void rewired(Draft& draft) {
  for (const ir::NodeId other : draft.hints.routing) {
    for (const ir::ValueId value : draft.graph.node(other).results) {
      if (value == draft.node.operands[0] || draft.type(value) != draft.type(draft.node.operands[0])) continue;
      if (draft.graph.node(other).scope != draft.node.scope || other == draft.id) continue;
      draft.add(
          Cause::kRouting, "of the result of another " + std::string(ops::op_name(draft.graph.node(other).op)),
          "choice and weights take scores with or without the correction bias",
          [value](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands[0] = value, ok_status(); }, 14);
    }
  }
}

}  // namespace

// A weight of the experts, before it multiplies.
void of_expert_weights(Draft& draft) {
  const auto before = [](std::vector<EditStep> steps) {
    return [steps = std::move(steps)](ir::Graph& graph, ir::NodeId id) { return wrap_operand(graph, id, 2, steps); };
  };
  draft.add(
      Cause::kRouting, "experts' weights divided by their sum", "normalise the chosen experts' weights",
      [](ir::Graph& graph, ir::NodeId id) -> Status {
        FL_TRY(wrap_operand(graph, id, 2, {map_step("x0")}));
        return divide_by_sum(graph, graph.value(graph.node(id).operands[2]).producer);
      },
      12);
  draft.add(Cause::kRouting, "softmax of the experts' weights", "the score function of the router",
            before({{.op = OpKind::kSoftmax, .attributes = {}}}), 13);
  for (const double factor : draft.numbers_with("scal")) {
    draft.add(Cause::kRouting, "experts' weights times " + number(factor), "scale the experts' weights",
              before({map_step("mul(x0, " + number(factor) + ")")}), 13);
  }
}

void of_routing(Draft& draft) {
  if (!draft.routing) return;
  if (draft.node.op == OpKind::kSoftmax) {
    draft.add(
        Cause::kRouting, "sigmoid instead of softmax", "the score function of the router",
        [](ir::Graph& graph, ir::NodeId id) {
          EditStep step = map_step("sigmoid(x0)");
          graph.node(id).op = step.op;
          graph.node(id).attributes = step.attributes;
          return ok_status();
        },
        10);
  }
  if (draft.node.op == OpKind::kMap && draft.node.operands.size() == 1) {
    draft.add(
        Cause::kRouting, "softmax instead of " + draft.node.attributes.get_expression("expr").to_string(),
        "the score function of the router",
        [](ir::Graph& graph, ir::NodeId id) {
          graph.node(id).op = OpKind::kSoftmax;
          graph.node(id).attributes = {};
          return ok_status();
        },
        10);
  }
  const bool weights = draft.type(draft.node.results[0]).dtype == tensor::DType::kF32;
  if (weights) {
    draft.add(Cause::kRouting, "weights divided by their sum", "normalise the chosen experts' weights", divide_by_sum,
              12);
    draft.add(
        Cause::kRouting, "softmax of the result", "the score function of the router",
        [](ir::Graph& graph, ir::NodeId id) {
          return wrap_result(graph, id, 0, {{.op = OpKind::kSoftmax, .attributes = {}}});
        },
        13);
    draft.add(
        Cause::kRouting, "rounded to bfloat16", "the router's logits are kept in bfloat16",
        [](ir::Graph& graph, ir::NodeId id) {
          return wrap_result(graph, id, 0, {cast_step("bf16"), cast_step("f32")});
        },
        33);
  }
  if (draft.node.op == OpKind::kGatherLast || draft.node.op == OpKind::kTopK) rewired(draft);
}

}  // namespace firstlight::locate
