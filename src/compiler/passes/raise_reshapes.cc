// SPDX-License-Identifier: Apache-2.0
// reshape(map(a, b)) becomes map(reshape(a), reshape(b)) where the operands have the map's own shape: what is computed
// along the new rows then meets the map's formula (fuse_rows). Runs behind the fusion of epilogues, which wants maps as
// its products shape them.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "compiler/weight_values.h"
#include "ir/rewrite.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

class Raiser {
 public:
  explicit Raiser(ir::Graph& graph)
      : graph_(graph),
        users_(ir::find_users(graph)),
        regions_(ir::region_numbers(graph)),
        weight_only_(weight_only_values(graph)),
        replacement_(graph.values.size(), -1) {}

  Status visit(ir::Region& region) {
    std::vector<ir::NodeId> order;
    for (const ir::NodeId id : std::vector<ir::NodeId>(region.nodes)) {
      if (may_rise(id)) FL_TRY(raise(id, order));
      order.push_back(id);
    }
    region.nodes = std::move(order);
    return ok_status();
  }

  void finish() {
    ir::replace_uses(graph_, replacement_);
    ir::eliminate_dead_code(graph_);
  }

 private:
  bool may_rise(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    if (node.op != ops::OpKind::kReshape || weight_only_[static_cast<size_t>(node.results[0])]) return false;
    const ir::Value& value = graph_.value(node.operands[0]);
    if (value.producer < 0 || graph_.node(value.producer).op != ops::OpKind::kMap) return false;
    if (users_[static_cast<size_t>(node.operands[0])].size() != 1) return false;
    if (regions_[static_cast<size_t>(value.producer)] != regions_[static_cast<size_t>(id)]) return false;
    const auto& operands = graph_.node(value.producer).operands;
    return std::all_of(operands.begin(), operands.end(), [&](ir::ValueId operand) {
      return graph_.value(operand).type.shape == value.type.shape && ops::is_plain(graph_.value(operand).type);
    });
  }

  Status raise(ir::NodeId id, std::vector<ir::NodeId>& order) {
    const ir::Node reshape = graph_.node(id);
    const ir::Node map = graph_.node(graph_.value(reshape.operands[0]).producer);
    std::vector<ir::ValueId> operands;
    for (const ir::ValueId operand : map.operands) {
      const std::vector<ir::ValueId> one = {operand};
      order.push_back(
          FL_TRY(ir::create_node(graph_, ops::OpKind::kReshape, one, reshape.attributes, {}, reshape.scope)));
      operands.push_back(graph_.node(order.back()).results[0]);
    }
    order.push_back(FL_TRY(ir::create_node(graph_, ops::OpKind::kMap, operands, map.attributes, {}, map.scope)));
    replacement_[static_cast<size_t>(reshape.results[0])] = graph_.node(order.back()).results[0];
    return ok_status();
  }

  ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<int32_t> regions_;
  std::vector<bool> weight_only_;
  std::vector<ir::ValueId> replacement_;
};

}  // namespace

Status raise_reshapes(ir::Graph& graph, const CompileOptions&) {
  Raiser raiser(graph);
  Status status;
  ir::for_each_region(graph, [&](ir::Region& region) {
    if (status.ok()) status = raiser.visit(region);
  });
  FL_TRY(std::move(status));
  raiser.finish();
  return ok_status();
}

}  // namespace firstlight::compiler
