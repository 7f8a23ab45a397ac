// SPDX-License-Identifier: Apache-2.0
// select(f(a, b)) = f(select(a), select(b)) for every f that works row by row. Applied as long as f's result is used by
// the selection alone, so that no work is done twice.
#include <algorithm>
#include <map>

#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

using tensor::Dim;
using tensor::Symbol;

bool has_token_rows(const tensor::Type& type) {
  return !type.is_state() && !type.shape.empty() && type.shape[0] == Dim(1, Symbol::kTokens);
}

bool is_selection(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != ops::OpKind::kGatherRows) return false;
  const ir::Value& ids = graph.value(node.operands[1]);
  return ids.kind == ir::Value::Kind::kInput && ids.name == "output_rows" &&
         has_token_rows(graph.value(node.operands[0]).type);
}

// Reshapes name their shape in an attribute: only those that keep the first axis are row-wise, with O in place of T.
bool narrow_reshape(ops::Attributes& attributes) {
  const std::string shape = attributes.get_string("shape");
  if (!shape.starts_with("T,")) return false;
  attributes.set("shape", "O" + shape.substr(1));
  return true;
}

}  // namespace

Status narrow_to_outputs(ir::Graph& graph, const CompileOptions&) {
  bool changed = true;
  std::map<ir::ValueId, ir::ValueId> selected;  // of a value: its selection, so that it is made once
  while (changed) {
    changed = false;
    const auto uses = ir::count_uses(graph);
    auto& order = graph.body.nodes;
    for (size_t at = order.size(); at-- > 0 && !changed;) {
      const ir::Node selection = graph.node(order[at]);
      if (!is_selection(graph, selection)) continue;
      const ir::NodeId old_producer = graph.value(selection.operands[0]).producer;
      if (old_producer < 0 || uses[static_cast<size_t>(selection.operands[0])] != 1) continue;
      const ir::Node producer = graph.node(old_producer);
      if (!ops::op_def(producer.op).elementwise_rows || !producer.regions.empty() || producer.results.size() != 1)
        continue;
      ops::Attributes attributes = producer.attributes;
      if (producer.op == ops::OpKind::kReshape && !narrow_reshape(attributes)) continue;
      // Operands without token rows broadcast or are weights; all per-token ones must have the rows in front.
      std::vector<ir::NodeId> placed;
      std::vector<ir::ValueId> operands = producer.operands;
      for (ir::ValueId& operand : operands) {
        if (!has_token_rows(graph.value(operand).type)) continue;
        const auto known = selected.find(operand);
        if (known != selected.end()) {
          operand = known->second;
          continue;
        }
        const std::vector<ir::ValueId> pair = {operand, selection.operands[1]};
        const ir::NodeId node = FL_TRY(ir::create_node(graph, ops::OpKind::kGatherRows, pair, {}, {}, "output"));
        placed.push_back(node);
        selected[operand] = graph.node(node).results[0];
        operand = graph.node(node).results[0];
      }
      auto narrowed = ir::create_node(graph, producer.op, operands, attributes, {}, producer.scope);
      if (!narrowed.ok()) return std::move(narrowed).status();
      placed.push_back(*narrowed);
      ir::replace_uses(graph, selection.results[0], graph.node(*narrowed).results[0]);
      // New nodes stand where the producer stood: its operands are made, and selections shared between two users of the
      // same value must stand before the earlier user.
      const ir::NodeId old_selection = order[at];
      std::erase(order, old_selection);
      const auto place = std::find(order.begin(), order.end(), old_producer);
      order.insert(order.erase(place), placed.begin(), placed.end());
      changed = true;
    }
  }
  // Selections that stand behind a user of theirs (made for a later one first) move up to right behind what they
  // select.
  for (const auto& [source, selection] : selected) {
    const ir::NodeId node = graph.value(selection).producer;
    auto& order = graph.body.nodes;
    const auto place = std::find(order.begin(), order.end(), node);
    if (place == order.end()) continue;
    order.erase(place);
    const ir::NodeId maker = graph.value(source).producer;
    const auto behind = maker < 0 ? order.begin() : std::next(std::find(order.begin(), order.end(), maker));
    order.insert(behind, node);
  }
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
