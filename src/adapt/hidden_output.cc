// SPDX-License-Identifier: Apache-2.0
#include "adapt/hidden_output.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/rewrite.h"

namespace firstlight::adapt {
namespace {

using ops::OpKind;
using tensor::Dim;
using tensor::Symbol;

bool is_selection(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != OpKind::kGatherRows) return false;
  const ir::Value& ids = graph.value(node.operands[1]);
  return ids.kind == ir::Value::Kind::kInput && ids.name == "output_rows";
}

bool has_output_rows(const tensor::Type& type) {
  return !type.is_state() && !type.shape.empty() && type.shape[0] == Dim(1, Symbol::kOutputs);
}

// What stands in front of the head: back from the logits to the first product with a weight.
Result<ir::ValueId> operand_of_head(const ir::Graph& graph, ir::ValueId logits) {
  ir::ValueId at = logits;
  while (true) {
    const ir::NodeId producer = graph.value(at).producer;
    if (producer < 0) return unsupported("embeddings: no product with a weight makes the logits");
    const ir::Node& node = graph.node(producer);
    if (node.op == OpKind::kLinear) return node.operands[0];
    const bool passes =
        node.op == OpKind::kMap || node.op == OpKind::kCast || node.op == OpKind::kSlice || node.op == OpKind::kReshape;
    const auto next = std::find_if(node.operands.begin(), node.operands.end(),
                                   [&](ir::ValueId id) { return has_output_rows(graph.value(id).type); });
    if (!passes || next == node.operands.end()) {
      return unsupported("embeddings: the logits come from " + std::string(ops::op_name(node.op)) + " in " +
                         node.scope + ", a product with a weight wanted");
    }
    at = *next;
  }
}

// Makes `value` again for every token: all that lies between the selection of rows and it, without the selection.
class Unselector {
 public:
  explicit Unselector(ir::Graph& graph) : graph_(graph) {}

  Result<ir::ValueId> every_row(ir::ValueId value) {
    if (!has_output_rows(graph_.value(value).type)) return value;
    if (const auto known = made_.find(value); known != made_.end()) return known->second;
    const ir::NodeId producer = graph_.value(value).producer;
    if (producer < 0) return unsupported("embeddings: the hidden state is no result of the graph");
    const ir::Node node = graph_.node(producer);
    if (is_selection(graph_, node)) return made_[value] = node.operands[0];
    if (!node.regions.empty() || node.results.size() != 1) {
      return unsupported("embeddings: " + std::string(ops::op_name(node.op)) + " in " + node.scope +
                         " stands behind the selection of rows");
    }
    std::vector<ir::ValueId> operands;
    for (const ir::ValueId operand : node.operands) operands.push_back(FL_TRY(every_row(operand)));
    ops::Attributes attributes = node.attributes;
    if (node.op == OpKind::kReshape) {
      const std::string shape = node.attributes.get_string("shape");
      if (!shape.starts_with("O,"))
        return unsupported("embeddings: a reshape to [" + shape + "] behind the selection of rows");
      attributes.set("shape", "T" + shape.substr(1));
    }
    const ir::NodeId copy = FL_TRY(ir::create_node(graph_, node.op, operands, attributes, {}, node.scope));
    graph_.body.nodes.push_back(copy);
    return made_[value] = graph_.node(copy).results[0];
  }

 private:
  ir::Graph& graph_;
  std::map<ir::ValueId, ir::ValueId> made_;
};

}  // namespace

Status add_hidden_output(ir::Graph& graph, bool keep_logits) {
  const auto output = [&](std::string_view name) -> ir::ValueId {
    for (size_t i = 0; i < graph.output_names.size(); ++i) {
      if (graph.output_names[i] == name) return graph.body.yields[i];
    }
    return -1;
  };
  const ir::ValueId logits = output("logits"), bare = output("hidden");
  if (logits < 0 && bare < 0) return unsupported("embeddings: the model has neither logits nor a hidden state");
  const ir::ValueId entering = bare >= 0 ? bare : FL_TRY(operand_of_head(graph, logits));
  const ir::ValueId hidden = FL_TRY(Unselector(graph).every_row(entering));
  const tensor::Shape& shape = graph.value(hidden).type.shape;
  if (shape.size() != 2 || shape[0] != Dim(1, Symbol::kTokens) || !shape[1].is_static()) {
    return unsupported("embeddings: the hidden state is " + tensor::shape_to_string(shape) + ", [T, width] wanted");
  }
  if (bare < 0 && !keep_logits) {
    graph.metadata.set("vocabulary", graph.value(logits).type.shape.back().factor);
  }
  if (bare >= 0 || !keep_logits) {
    graph.output_names = {"hidden"};
    graph.body.yields = {hidden};
  } else {
    graph.output_names.emplace_back("hidden");
    graph.body.yields.push_back(hidden);
  }
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::adapt
