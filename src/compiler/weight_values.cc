// SPDX-License-Identifier: Apache-2.0
#include "compiler/weight_values.h"

#include <algorithm>

namespace firstlight::compiler {

std::vector<bool> weight_only_values(const ir::Graph& graph) {
  std::vector<bool> weight_only(graph.values.size(), false);
  for (size_t i = 0; i < graph.values.size(); ++i) weight_only[i] = graph.values[i].kind == ir::Value::Kind::kWeight;
  for (const ir::NodeId id : graph.body.nodes) {
    const ir::Node& node = graph.node(id);
    const bool all = node.regions.empty() &&
                     std::all_of(node.operands.begin(), node.operands.end(),
                                 [&](ir::ValueId operand) { return weight_only[static_cast<size_t>(operand)]; });
    for (const ir::ValueId result : node.results) weight_only[static_cast<size_t>(result)] = all;
  }
  return weight_only;
}

}  // namespace firstlight::compiler
