// SPDX-License-Identifier: Apache-2.0
// Types of all values anew from the operators' rules, in order, regions included: whatever a pass or a parser left
// behind, what follows starts from shapes that hold.
#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

class Inference {
 public:
  explicit Inference(ir::Graph& graph) : graph_(graph) {}

  Status visit(const ir::Region& region) {
    for (const ir::NodeId id : region.nodes) {
      const ir::Node& node = graph_.node(id);
      const std::string where = node.scope + " " + std::string(ops::op_name(node.op));
      FL_TRY(visit(node).with_context(where));
    }
    return ok_status();
  }

 private:
  std::vector<tensor::Type> types_of(const std::vector<ir::ValueId>& ids) const {
    std::vector<tensor::Type> types;
    for (const ir::ValueId id : ids) types.push_back(graph_.value(id).type);
    return types;
  }

  Status visit(const ir::Node& node) {
    const auto operands = types_of(node.operands);
    const auto states = graph_.states_of(node.operands);
    std::vector<std::vector<tensor::Type>> yields;
    for (size_t i = 0; i < node.regions.size(); ++i) {
      const auto parameters = FL_TRY(ops::region_parameters(node.op, static_cast<int>(i), operands, node.attributes));
      for (size_t p = 0; p < parameters.size(); ++p) graph_.value(node.regions[i].parameters[p]).type = parameters[p];
      FL_TRY(visit(node.regions[i]));
      yields.push_back(types_of(node.regions[i].yields));
    }
    const auto results = FL_TRY(ops::op_def(node.op).infer({.operands = operands,
                                                            .attributes = node.attributes,
                                                            .state = states.empty() ? nullptr : states[0],
                                                            .regions = yields,
                                                            .states = states}));
    for (size_t i = 0; i < results.size(); ++i) graph_.value(node.results[i]).type = results[i];
    return ok_status();
  }

  ir::Graph& graph_;
};

}  // namespace

Status infer_shapes(ir::Graph& graph, const CompileOptions&) { return Inference(graph).visit(graph.body); }

}  // namespace firstlight::compiler
