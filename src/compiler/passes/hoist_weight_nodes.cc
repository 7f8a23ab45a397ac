// SPDX-License-Identifier: Apache-2.0
// Specs transform weights where they use them; afterwards all of that stands in front of the first node that sees a
// token, so that later passes may move a consumer without looking where its weights are made.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "compiler/weight_values.h"

namespace firstlight::compiler {

Status hoist_weight_nodes(ir::Graph& graph, const CompileOptions&) {
  const auto weight_only = weight_only_values(graph);
  std::stable_partition(graph.body.nodes.begin(), graph.body.nodes.end(), [&](ir::NodeId id) {
    const auto& results = graph.node(id).results;
    return !results.empty() && weight_only[static_cast<size_t>(results[0])];
  });
  return ok_status();
}

}  // namespace firstlight::compiler
