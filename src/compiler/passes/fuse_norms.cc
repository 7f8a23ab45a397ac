// SPDX-License-Identifier: Apache-2.0
// linear(rms_norm(x)) becomes fused_linear(x) with a norm in front, when all users of the normalised rows are matrix
// products: preparing the rows is part of their work anyway. The norm of a few hundred numbers is cheaper to do twice
// than to wait for, so a few users may share it: how many, the target decides (fusion_rules.h). All stand in the norm's
// own region.
#include <algorithm>

#include "compiler/fused_linear.h"
#include "compiler/fusion_rules.h"
#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

struct Users {
  std::vector<ir::NodeId> products;
  bool others = false;
};

// Who reads each value as the x of a fused_linear, and whether anybody reads it otherwise.
std::vector<Users> find_users(ir::Graph& graph) {
  std::vector<Users> users(graph.values.size());
  ir::for_each_region(graph, [&](ir::Region& region) {
    for (const ir::NodeId id : region.nodes) {
      const ir::Node& node = graph.node(id);
      for (size_t i = 0; i < node.operands.size(); ++i) {
        Users& of = users[static_cast<size_t>(node.operands[i])];
        if (node.op == ops::OpKind::kFusedLinear && i == 0 && !take_apart(node).norm) {
          of.products.push_back(id);
        } else {
          of.others = true;
        }
      }
    }
    for (const ir::ValueId id : region.yields) users[static_cast<size_t>(id)].others = true;
  });
  return users;
}

}  // namespace

Status fuse_norms(ir::Graph& graph, const CompileOptions& options) {
  const size_t most = fusion_rules(options.execution).max_norm_users;
  const auto users = find_users(graph);
  const auto regions = ir::region_numbers(graph);
  for (const ir::Node& norm : std::vector<ir::Node>(graph.nodes)) {
    if (norm.op != ops::OpKind::kRmsNorm) continue;
    const Users& of = users[static_cast<size_t>(norm.results[0])];
    if (of.others || of.products.empty() || of.products.size() > most) continue;
    if (graph.value(norm.operands[0]).type.dtype != tensor::DType::kF32) continue;
    const int32_t region = regions[static_cast<size_t>(graph.value(norm.results[0]).producer)];
    const bool together = std::all_of(of.products.begin(), of.products.end(),
                                      [&](ir::NodeId id) { return regions[static_cast<size_t>(id)] == region; });
    if (!together) continue;
    for (const ir::NodeId id : of.products) {
      ir::Node& node = graph.node(id);
      FusedLinear fused = take_apart(node);
      fused.x = norm.operands[0];
      fused.norm = true;
      fused.norm_eps = norm.attributes.get_float("eps");
      fused.norm_offset = norm.attributes.get_float("offset");
      if (norm.operands.size() > 1) fused.norm_weight = norm.operands[1];
      node.operands = operands_of(fused);
      node.attributes = attributes_of(fused);
    }
  }
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
