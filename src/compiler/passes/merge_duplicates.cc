// SPDX-License-Identifier: Apache-2.0
// Common subexpressions: of two nodes of one region with the same operator, operands and attributes the later one goes.
// Nodes with regions and nodes that change a state stay.
#include <map>

#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

bool is_plain(const ir::Graph& graph, const ir::Node& node) {
  if (!node.regions.empty()) return false;
  for (const ir::ValueId id : node.results) {
    if (graph.value(id).type.is_state()) return false;
  }
  // An operator that reads the states of recurrences changes them as well.
  for (const ir::ValueId id : node.operands) {
    if (graph.value(id).type.is_state() && node.op != ops::OpKind::kAttend) return false;
  }
  return true;
}

}  // namespace

Status merge_duplicates(ir::Graph& graph, const CompileOptions&) {
  std::vector<ir::ValueId> replacement(graph.values.size(), -1);
  ir::for_each_region(graph, [&](ir::Region& region) {
    std::multimap<std::pair<ops::OpKind, std::vector<ir::ValueId>>, ir::NodeId> seen;
    for (const ir::NodeId id : region.nodes) {
      ir::Node& node = graph.node(id);
      for (ir::ValueId& operand : node.operands) {
        if (replacement[static_cast<size_t>(operand)] >= 0) operand = replacement[static_cast<size_t>(operand)];
      }
      if (!is_plain(graph, node)) continue;
      const auto [first, last] = seen.equal_range({node.op, node.operands});
      auto same = first;
      while (same != last && !(graph.node(same->second).attributes == node.attributes)) ++same;
      if (same == last) {
        seen.emplace(std::pair(node.op, node.operands), id);
        continue;
      }
      const ir::Node& kept = graph.node(same->second);
      for (size_t i = 0; i < node.results.size(); ++i) {
        replacement[static_cast<size_t>(node.results[i])] = kept.results[i];
      }
    }
  });
  ir::replace_uses(graph, replacement);
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
