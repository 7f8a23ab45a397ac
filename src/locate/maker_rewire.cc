// SPDX-License-Identifier: Apache-2.0
// Values in the place of others: parts of a joined product exchanged, an operand that should be another value of the
// layer, a norm on the wrong side of a gate.
#include <algorithm>
#include <array>

#include "locate/draft.h"

namespace firstlight::locate {

using ops::OpKind;

namespace {

bool is_same_layer(const std::string& a, const std::string& b) {
  const auto layer = [](const std::string& scope) {
    const size_t digit = scope.find_first_of("0123456789");
    return digit == std::string::npos ? std::string() : scope.substr(0, scope.find('.', digit));
  };
  return layer(a) == layer(b);
}

std::string name_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::NodeId maker = graph.value(value).producer;
  if (maker < 0) return graph.value(value).name;
  const ir::Node& node = graph.node(maker);
  for (const ir::ValueId operand : node.operands) {
    if (graph.value(operand).kind == ir::Value::Kind::kWeight) return graph.value(operand).name;
  }
  return std::string(ops::op_name(node.op)) + " in " + node.scope;
}

// The formula with its two operands changed over.
ops::Expression turned(const ops::Expression& formula) {
  ops::Expression out;
  const std::array<int32_t, 2> inputs = {out.input(1), out.input(0)};
  out.set_result(out.inlined(formula, inputs));
  return out;
}

// Slices of one value, equally wide.
void exchanged_parts(Draft& draft) {
  const auto& own = draft.node.attributes;
  const int64_t width = own.get_int("stop") - own.get_int("start");
  for (size_t i = 0; i < draft.graph.nodes.size(); ++i) {
    const ir::Node& other = draft.graph.nodes[i];
    const auto other_id = static_cast<ir::NodeId>(i);
    if (other.op != OpKind::kSlice || other_id == draft.id || other.operands != draft.node.operands) continue;
    const auto& theirs = other.attributes;
    if (theirs.get_int("axis") != own.get_int("axis") || theirs.get_int("start") < own.get_int("start")) continue;
    if (theirs.get_int("stop") - theirs.get_int("start") != width) continue;
    draft.add(
        Cause::kWeight,
        "parts from " + std::to_string(own.get_int("start")) + " and " + std::to_string(theirs.get_int("start")) +
            " on exchanged",
        "two parts of a joined tensor stand in the other order",
        [other_id](ir::Graph& graph, ir::NodeId id) {
          for (const char* end : {"start", "stop"}) {
            const int64_t mine = graph.node(id).attributes.get_int(end);
            graph.node(id).attributes.set(end, graph.node(other_id).attributes.get_int(end));
            graph.node(other_id).attributes.set(end, mine);
          }
          return ok_status();
        },
        16);
  }
}

std::vector<ir::NodeId> users(const ir::Graph& graph, ir::ValueId value) {
  std::vector<ir::NodeId> out;
  for (const ir::NodeId id : graph.body.nodes) {
    const auto& operands = graph.node(id).operands;
    if (std::find(operands.begin(), operands.end(), value) != operands.end()) out.push_back(id);
  }
  return out;
}

// The first of the reshapes in front of the norm, or the norm; the last behind it, with the products by its weight.
ir::NodeId chain_before(const Draft& draft) {
  ir::NodeId first = draft.id;
  for (;;) {
    const ir::NodeId maker = draft.graph.value(draft.graph.node(first).operands[0]).producer;
    if (maker < 0 || draft.graph.node(maker).op != OpKind::kReshape) return first;
    first = maker;
  }
}
ir::NodeId chain_behind(const Draft& draft) {
  ir::NodeId last = draft.id;
  for (;;) {
    const auto next = users(draft.graph, draft.graph.node(last).results[0]);
    if (next.size() != 1) return last;
    const ir::Node& node = draft.graph.node(next[0]);
    const bool weighs = node.op == OpKind::kMap && node.operands.size() == 2 && draft.is_weight(node.operands[1]);
    if (node.op != OpKind::kReshape && !weighs) return last;
    last = next[0];
  }
}

// A formula of operand k and of another value like `like`.
bool is_gate(const Draft& draft, ir::NodeId id, size_t k, ir::ValueId like) {
  const ir::Node& node = draft.graph.node(id);
  if (node.op != OpKind::kMap || node.operands.size() != 2) return false;
  const auto& type = draft.type(like);
  return draft.type(node.operands[0]) == type && draft.type(node.operands[1]) == type &&
         !draft.is_weight(node.operands[1 - k]);
}

EditStep gate_step(const ir::Node& gate, size_t k) {
  EditStep step{.op = OpKind::kMap, .attributes = gate.attributes, .more = {gate.operands[1 - k]}};
  if (k == 1) step.attributes.set("expr", turned(step.attributes.get_expression("expr")));
  return step;
}

}  // namespace

void of_parts(Draft& draft) {
  if (draft.node.op == OpKind::kSlice) exchanged_parts(draft);
}

void other_operands(Draft& draft) {
  const std::set<ir::NodeId> body(draft.graph.body.nodes.begin(), draft.graph.body.nodes.end());
  if (!body.contains(draft.id)) return;
  for (size_t k = 0; k < draft.node.operands.size() && k < 3; ++k) {
    const ir::ValueId own = draft.node.operands[k];
    const tensor::Type& type = draft.type(own);
    if (draft.is_weight(own) || type.is_state() || type.dtype != tensor::DType::kF32) continue;
    for (size_t i = 0; i < draft.graph.values.size(); ++i) {
      const auto other = static_cast<ir::ValueId>(i);
      const ir::Value& value = draft.graph.value(other);
      if (other == own || value.kind != ir::Value::Kind::kResult || value.type != type || draft.is_weight(other))
        continue;
      if (!body.contains(value.producer)) continue;
      const ir::Node& maker = draft.graph.node(value.producer);
      const auto& results = draft.node.results;
      if (std::find(results.begin(), results.end(), other) != results.end()) continue;
      if (maker.op == OpKind::kReshape || !is_same_layer(maker.scope, draft.node.scope)) continue;
      draft.add(
          draft.here(Cause::kConfig), name_of(draft.graph, other) + " in the place of " + name_of(draft.graph, own),
          "the spec takes another value here",
          [k, other](ir::Graph& graph, ir::NodeId id) { return graph.node(id).operands[k] = other, ok_status(); }, 36);
    }
  }
}

// f(norm(x), g) where norm(f(x, g)) is meant, and the other way round. Between them may lie what moves numbers alone
// and the norm's own weight.
void gate_and_norm(Draft& draft) {
  const auto first = chain_before(draft);
  const auto last = chain_behind(draft);
  const auto after = users(draft.graph, draft.graph.node(last).results[0]);
  if (after.size() == 1) {
    for (const size_t k : {size_t{0}, size_t{1}}) {
      if (!is_gate(draft, after[0], k, draft.graph.node(first).operands[0])) continue;
      draft.add(
          Cause::kNorm, "the gate before the norm", "this norm sees what is gated already",
          [k, first, gate_id = after[0]](ir::Graph& graph, ir::NodeId) -> Status {
            FL_TRY(wrap_operand(graph, first, 0, {gate_step(graph.node(gate_id), k)}));
            return become_identity(graph, gate_id, k);
          },
          24);
    }
  }
  const ir::NodeId before = draft.graph.value(draft.graph.node(first).operands[0]).producer;
  if (before < 0) return;
  for (const size_t k : {size_t{0}, size_t{1}}) {
    if (!is_gate(draft, before, k, draft.graph.node(last).results[0])) continue;
    draft.add(
        Cause::kNorm, "the gate behind the norm", "this norm sees what is not gated yet",
        [k, last, gate_id = before](ir::Graph& graph, ir::NodeId) -> Status {
          FL_TRY(wrap_result(graph, last, 0, {gate_step(graph.node(gate_id), k)}));
          return become_identity(graph, gate_id, k);
        },
        24);
  }
}

}  // namespace firstlight::locate
