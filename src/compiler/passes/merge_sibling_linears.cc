// SPDX-License-Identifier: Apache-2.0
// Products of one input whose results go different ways (query, key, value) become one step with several results,
// placed where the first stood: the input is prepared once, and the threads meet once. Only weights whose products
// compute alike are put together.
#include <map>
#include <tuple>

#include "compiler/compute_modes.h"
#include "compiler/fused_linear.h"
#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

using GroupKey = std::tuple<ir::ValueId, std::string, catalog::ComputeMode>;

}  // namespace

Status merge_sibling_linears(ir::Graph& graph, const CompileOptions& options) {
  Status status;
  ir::for_each_region(graph, [&](ir::Region& region) {
    std::map<GroupKey, std::vector<ir::NodeId>> groups;
    for (const ir::NodeId id : region.nodes) {
      const ir::Node& node = graph.node(id);
      if (node.op != ops::OpKind::kFusedLinear) continue;
      const FusedLinear fused = take_apart(node);
      if (!fused.epilogue.empty() || fused.norm) continue;
      const auto mode = compute_mode_for(options, fused.compute, graph.value(fused.weights[0]).type.dtype);
      groups[{fused.x, fused.compute, mode}].push_back(id);
    }
    for (const auto& [key, members] : groups) {
      if (members.size() < 2 || !status.ok()) continue;
      FusedLinear merged = take_apart(graph.node(members[0]));
      for (size_t i = 1; i < members.size(); ++i) {
        const FusedLinear part = take_apart(graph.node(members[i]));
        merged.weights.insert(merged.weights.end(), part.weights.begin(), part.weights.end());
        merged.biases.insert(merged.biases.end(), part.biases.begin(), part.biases.end());
      }
      auto made = ir::create_node(graph, ops::OpKind::kFusedLinear, operands_of(merged), attributes_of(merged), {},
                                  graph.node(members[0]).scope);
      if (!made.ok()) {
        status = std::move(made).status();
        return;
      }
      size_t result = 0;
      for (const ir::NodeId member : members) {
        for (const ir::ValueId old : graph.node(member).results) {
          ir::replace_uses(graph, old, graph.node(*made).results[result++]);
        }
      }
      *std::find(region.nodes.begin(), region.nodes.end(), members[0]) = *made;
      for (size_t i = 1; i < members.size(); ++i) std::erase(region.nodes, members[i]);
    }
  });
  FL_TRY(std::move(status));
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
