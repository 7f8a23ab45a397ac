// SPDX-License-Identifier: Apache-2.0
// Products of one input whose results go different ways (query, key, value) become one step with several results,
// placed where the first stood: the input is prepared once, and the threads meet once. Only weights whose products
// compute alike are put together, and only those that are made before the first product stands.
#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/compute_modes.h"
#include "compiler/fused_linear.h"
#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

constexpr size_t kMaxWeights = 64;  // of one fused_linear, by its row

using GroupKey = std::tuple<ir::ValueId, std::string, catalog::ComputeMode>;
using Group = std::vector<ir::NodeId>;

class Merger {
 public:
  Merger(ir::Graph& graph, const CompileOptions& options) : graph_(graph), options_(options) {}

  Status visit(ir::Region& region) {
    for (const Group& group : find_groups(region)) {
      if (group.size() > 1) FL_TRY(merge(region, group));
    }
    return ok_status();
  }

 private:
  std::vector<Group> find_groups(const ir::Region& region) {
    place_.assign(graph_.nodes.size(), -1);
    for (size_t i = 0; i < region.nodes.size(); ++i)
      place_[static_cast<size_t>(region.nodes[i])] = static_cast<int64_t>(i);
    std::vector<Group> groups;
    std::map<GroupKey, size_t> open;
    for (const ir::NodeId id : region.nodes) {
      const ir::Node& node = graph_.node(id);
      if (node.op != ops::OpKind::kFusedLinear) continue;
      const FusedLinear fused = take_apart(node);
      if (!fused.epilogue.empty() || fused.norm || fused.weights.size() != 1) continue;
      const auto mode = compute_mode_for(options_, fused.compute, graph_.value(fused.weights[0]).type.dtype);
      const auto [at, is_new] = open.try_emplace({fused.x, fused.compute, mode}, groups.size());
      if (!is_new && groups[at->second].size() < kMaxWeights && is_made_before(node, groups[at->second][0])) {
        groups[at->second].push_back(id);
      } else {
        at->second = groups.size();
        groups.push_back({id});
      }
    }
    return groups;
  }

  // Whether all operands of `node` are there where `first`, of the same region, stands.
  bool is_made_before(const ir::Node& node, ir::NodeId first) const {
    return std::all_of(node.operands.begin(), node.operands.end(), [&](ir::ValueId id) {
      const ir::NodeId producer = graph_.value(id).producer;
      return producer < 0 || place_[static_cast<size_t>(producer)] < place_[static_cast<size_t>(first)];
    });
  }

  Status merge(ir::Region& region, const Group& members) {
    FusedLinear merged = take_apart(graph_.node(members[0]));
    for (size_t i = 1; i < members.size(); ++i) {
      const FusedLinear part = take_apart(graph_.node(members[i]));
      merged.weights.insert(merged.weights.end(), part.weights.begin(), part.weights.end());
      merged.biases.insert(merged.biases.end(), part.biases.begin(), part.biases.end());
    }
    const std::string scope = graph_.node(members[0]).scope;
    const ir::NodeId made = FL_TRY(
        ir::create_node(graph_, ops::OpKind::kFusedLinear, operands_of(merged), attributes_of(merged), {}, scope));
    for (size_t i = 0; i < members.size(); ++i) {
      ir::replace_uses(graph_, graph_.node(members[i]).results[0], graph_.node(made).results[i]);
    }
    *std::find(region.nodes.begin(), region.nodes.end(), members[0]) = made;
    for (size_t i = 1; i < members.size(); ++i) std::erase(region.nodes, members[i]);
    return ok_status();
  }

  ir::Graph& graph_;
  const CompileOptions& options_;
  std::vector<int64_t> place_;  // of each node in the region being visited; -1: in another
};

}  // namespace

Status merge_sibling_linears(ir::Graph& graph, const CompileOptions& options) {
  Merger merger(graph, options);
  Status status;
  ir::for_each_region(graph, [&](ir::Region& region) {
    if (status.ok()) status = merger.visit(region);
  });
  FL_TRY(std::move(status));
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
