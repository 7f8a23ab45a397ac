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

// Whether row t of the node's result comes from row t of those operands that have token rows, and from nothing else
// that differs from row to row.
bool works_by_rows(const ir::Graph& graph, const ir::Node& node) {
  if (!ops::op_def(node.op).elementwise_rows && node.op != ops::OpKind::kReshape) return false;
  if (!node.regions.empty() || node.results.size() != 1) return false;
  // A rope's table goes by the sequence that a row of the batch belongs to.
  if (node.op == ops::OpKind::kRope) return false;
  const tensor::Type& result = graph.value(node.results[0]).type;
  if (!has_token_rows(result)) return false;
  const tensor::Type& first = graph.value(node.operands[0]).type;
  switch (node.op) {
    case ops::OpKind::kMap:
      // Shorter operands are aligned at the last axis: their first is another one.
      return std::all_of(node.operands.begin(), node.operands.end(), [&](ir::ValueId id) {
        const tensor::Type& type = graph.value(id).type;
        return !has_token_rows(type) || type.shape.size() == result.shape.size();
      });
    case ops::OpKind::kCast:
      return true;
    case ops::OpKind::kGatherRows:
      return !has_token_rows(first);  // any id may ask for any row of the table
    case ops::OpKind::kReshape:
      // The first axis stays, written as such.
      return has_token_rows(first) && node.attributes.get_string("shape").starts_with("T,");
    default:
      return result.shape.size() > 1;  // what works along the last axis must have another one for the rows
  }
}

class Narrower {
 public:
  explicit Narrower(ir::Graph& graph) : graph_(graph) {}

  Status run() {
    for (bool changed = true; changed;) {
      changed = false;
      const auto uses = ir::count_uses(graph_);
      const auto& order = graph_.body.nodes;
      for (size_t at = order.size(); at-- > 0 && !changed;) changed = FL_TRY(narrow(order[at], uses));
    }
    place_selections();
    ir::eliminate_dead_code(graph_);
    return ok_status();
  }

 private:
  // Moves the selection in front of what makes its rows; false when it is none or may not move.
  Result<bool> narrow(ir::NodeId selection_id, const std::vector<int32_t>& uses) {
    const ir::Node selection = graph_.node(selection_id);
    if (!is_selection(selection) || uses[static_cast<size_t>(selection.operands[0])] != 1) return false;
    const ir::NodeId producer_id = graph_.value(selection.operands[0]).producer;
    if (producer_id < 0) return false;
    const ir::Node producer = graph_.node(producer_id);
    if (!works_by_rows(graph_, producer)) return false;
    ops::Attributes attributes = producer.attributes;
    if (producer.op == ops::OpKind::kReshape) {
      attributes.set("shape", "O" + producer.attributes.get_string("shape").substr(1));
    }
    // Operands without token rows broadcast or are weights.
    std::vector<ir::NodeId> placed;
    std::vector<ir::ValueId> operands = producer.operands;
    for (ir::ValueId& operand : operands) {
      if (!has_token_rows(graph_.value(operand).type)) continue;
      const auto known = selected_.find(operand);
      if (known != selected_.end()) {
        operand = known->second;
        continue;
      }
      const std::vector<ir::ValueId> pair = {operand, selection.operands[1]};
      placed.push_back(FL_TRY(ir::create_node(graph_, ops::OpKind::kGatherRows, pair, {}, {}, "output")));
      operand = selected_[operand] = graph_.node(placed.back()).results[0];
    }
    placed.push_back(FL_TRY(ir::create_node(graph_, producer.op, operands, attributes, {}, producer.scope)));
    ir::replace_uses(graph_, selection.results[0], graph_.node(placed.back()).results[0]);
    // New nodes stand where the producer stood: its operands are made.
    auto& order = graph_.body.nodes;
    std::erase(order, selection_id);
    const auto place = std::find(order.begin(), order.end(), producer_id);
    order.insert(order.erase(place), placed.begin(), placed.end());
    return true;
  }

  bool is_selection(const ir::Node& node) const {
    if (node.op != ops::OpKind::kGatherRows) return false;
    const ir::Value& ids = graph_.value(node.operands[1]);
    return ids.kind == ir::Value::Kind::kInput && ids.name == "output_rows" &&
           has_token_rows(graph_.value(node.operands[0]).type);
  }

  // A selection that two nodes share may stand behind one of them (it was made for the later one first): all move up to
  // right behind what they select.
  void place_selections() {
    auto& order = graph_.body.nodes;
    for (const auto& [source, selection] : selected_) {
      const ir::NodeId node = graph_.value(selection).producer;
      const auto place = std::find(order.begin(), order.end(), node);
      if (place == order.end()) continue;  // narrowed on
      order.erase(place);
      const auto maker = std::find(order.begin(), order.end(), graph_.value(source).producer);
      order.insert(maker == order.end() ? order.begin() : std::next(maker), node);
    }
  }

  ir::Graph& graph_;
  std::map<ir::ValueId, ir::ValueId> selected_;  // of a value: its selection, so that it is made once
};

}  // namespace

Status narrow_to_outputs(ir::Graph& graph, const CompileOptions& options) {
  FL_TRY(Narrower(graph).run());
  return hoist_weight_nodes(graph, options);  // selections of inputs have been put in front of everything
}

}  // namespace firstlight::compiler
