// SPDX-License-Identifier: Apache-2.0
// map(f, …, map(g, …), …) becomes one map where the inner result has no other user and the outer shape (inlining a
// broadcast operand would compute it again for every element it spreads over). Both stand in one region: another may
// run less often.
#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

// The operand of `node` that can be inlined, or -1.
int inlinable_operand(const ir::Graph& graph, const ir::Node& node, const std::vector<int32_t>& uses,
                      const std::vector<int32_t>& regions, int32_t region) {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ir::Value& operand = graph.value(node.operands[i]);
    if (operand.producer < 0 || graph.node(operand.producer).op != ops::OpKind::kMap) continue;
    if (uses[static_cast<size_t>(node.operands[i])] != 1) continue;
    if (regions[static_cast<size_t>(operand.producer)] != region) continue;
    if (operand.type.shape == graph.value(node.results[0]).type.shape) return static_cast<int>(i);
  }
  return -1;
}

// Puts the formula of operand `at`'s map into the node's own; false when it would become too long.
bool inline_operand(ir::Graph& graph, ir::Node& node, size_t at) {
  const ir::Node& inner = graph.node(graph.value(node.operands[at]).producer);
  std::vector<ir::ValueId> operands;
  ops::Expression fused;
  std::vector<int32_t> outer_inputs(node.operands.size(), -1);
  const auto input_for = [&](ir::ValueId id) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == id) return fused.input(static_cast<int32_t>(i));
    }
    operands.push_back(id);
    return fused.input(static_cast<int32_t>(operands.size()) - 1);
  };
  std::vector<int32_t> inner_inputs;
  for (const ir::ValueId id : inner.operands) inner_inputs.push_back(input_for(id));
  outer_inputs[at] = fused.inlined(inner.attributes.get_expression("expr"), inner_inputs);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (i != at) outer_inputs[i] = input_for(node.operands[i]);
  }
  fused.set_result(fused.inlined(node.attributes.get_expression("expr"), outer_inputs));
  if (!fused.within_limits()) return false;
  // set_result may have dropped inputs nobody needs; operands stay, the expression's numbering with them.
  node.operands = std::move(operands);
  node.attributes.set("expr", std::move(fused));
  return true;
}

}  // namespace

Status fuse_maps(ir::Graph& graph, const CompileOptions&) {
  auto uses = ir::count_uses(graph);
  const auto regions = ir::region_numbers(graph);
  ir::for_each_region(graph, [&](ir::Region& region) {
    for (const ir::NodeId id : region.nodes) {
      ir::Node& node = graph.node(id);
      if (node.op != ops::OpKind::kMap) continue;
      const int32_t region_number = regions[static_cast<size_t>(id)];
      while (true) {
        const int at = inlinable_operand(graph, node, uses, regions, region_number);
        if (at < 0) break;
        uses[static_cast<size_t>(node.operands[static_cast<size_t>(at)])] = 0;
        // An operand that both formulas read keeps a count of two, which only keeps it from being inlined itself.
        if (!inline_operand(graph, node, static_cast<size_t>(at))) break;
      }
    }
  });
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
