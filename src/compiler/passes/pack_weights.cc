// SPDX-License-Identifier: Apache-2.0
// Puts a pack_weight node between a weight and the matrix products that read it, wherever the catalog has a kernel that
// takes it packed. Weights of experts are packed as a stack and sliced afterwards.
#include <algorithm>
#include <array>
#include <map>

#include "compiler/compute_modes.h"
#include "compiler/fused_linear.h"
#include "compiler/passes/passes.h"
#include "compiler/weight_values.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

class Packer {
 public:
  Packer(ir::Graph& graph, const CompileOptions& options)
      : graph_(graph), options_(options), weight_only_(weight_only_values(graph)) {}

  Status run() {
    find_stacks(graph_.body);
    Status status;
    ir::for_each_region(graph_, [&](ir::Region& region) {
      for (const ir::NodeId id : region.nodes) {
        if (status.ok()) status = visit(id);
      }
    });
    FL_TRY(std::move(status));
    auto& order = graph_.body.nodes;
    const auto first_live = std::find_if(order.begin(), order.end(), [&](ir::NodeId id) {
      const auto& results = graph_.node(id).results;
      return results.empty() || !weight_only_[static_cast<size_t>(results[0])];
    });
    order.insert(first_live, made_.begin(), made_.end());
    ir::eliminate_dead_code(graph_);
    return ok_status();
  }

 private:
  // Where a region's parameter is one expert's part of a stack: parameter -> (per_expert node, operand index).
  void find_stacks(const ir::Region& region) {
    for (const ir::NodeId id : region.nodes) {
      const ir::Node& node = graph_.node(id);
      for (const ir::Region& inner : node.regions) {
        if (node.op == ops::OpKind::kPerExpert) {
          for (size_t i = 1; i < inner.parameters.size(); ++i) stacks_[inner.parameters[i]] = {id, i + 2};
        }
        find_stacks(inner);
      }
    }
  }

  // The operand places that hold a weight matrix.
  static std::vector<size_t> weight_places(const ir::Node& node) {
    const bool one =
        node.op == ops::OpKind::kLinear || node.op == ops::OpKind::kBatchedLinear || node.op == ops::OpKind::kRoute;
    if (one) return {1};
    if (node.op != ops::OpKind::kFusedLinear) return {};
    std::vector<size_t> places;
    const size_t first = node.attributes.get_bool("norm_weighted") ? 2 : 1;
    for (int64_t i = 0; i < node.attributes.get_int("num_weights"); ++i)
      places.push_back(first + static_cast<size_t>(i));
    return places;
  }

  Status visit(ir::NodeId id) {
    for (const size_t place : weight_places(graph_.node(id))) {
      const ir::ValueId weight = graph_.node(id).operands[place];
      const auto stack = stacks_.find(weight);
      const ir::ValueId source =
          stack == stacks_.end() ? weight : graph_.node(stack->second.first).operands[stack->second.second];
      const tensor::Type& type = graph_.value(source).type;
      if (!weight_only_[static_cast<size_t>(source)] || type.layout != tensor::Layout::kRowMajor) continue;
      const ir::Node& node = graph_.node(id);
      const std::string wish = node.attributes.get_string("compute");
      const auto mode = compute_mode_for(options_, wish, type.dtype);
      if (!kernel_takes_packed(node, place, mode)) continue;
      const ir::ValueId packed = FL_TRY(pack(source));
      if (stack == stacks_.end()) {
        graph_.node(id).operands[place] = packed;
      } else {
        // The stack and all of the parameter's users change together: a parameter is read by this node alone (checked).
        if (uses_of(weight) != 1) continue;
        graph_.node(stack->second.first).operands[stack->second.second] = packed;
        graph_.value(weight).type.layout = tensor::Layout::kPackedRows;
      }
    }
    return ok_status();
  }

  int32_t uses_of(ir::ValueId id) const { return ir::count_uses(graph_)[static_cast<size_t>(id)]; }

  bool kernel_takes_packed(const ir::Node& node, size_t place, catalog::ComputeMode mode) const {
    std::vector<tensor::Type> operands, results;
    for (const ir::ValueId id : node.operands) operands.push_back(graph_.value(id).type);
    for (const ir::ValueId id : node.results) results.push_back(graph_.value(id).type);
    for (const size_t other : weight_places(node)) operands[other].layout = tensor::Layout::kPackedRows;
    operands[place].layout = tensor::Layout::kPackedRows;
    return catalog::select_kernel(options_.backend, options_.features,
                                  {.op = node.op,
                                   .operands = operands,
                                   .results = results,
                                   .attributes = node.attributes,
                                   .mode = mode}) != nullptr;
  }

  Result<ir::ValueId> pack(ir::ValueId source) {
    const auto known = packed_.find(source);
    if (known != packed_.end()) return known->second;
    const std::array operands = {source};
    const ir::NodeId node = FL_TRY(ir::create_node(graph_, ops::OpKind::kPackWeight, operands, {}, {}, "weights"));
    made_.push_back(node);
    const ir::ValueId result = graph_.node(node).results[0];
    weight_only_.resize(graph_.values.size(), true);
    return packed_[source] = result;
  }

  ir::Graph& graph_;
  const CompileOptions& options_;
  std::vector<bool> weight_only_;
  std::map<ir::ValueId, std::pair<ir::NodeId, size_t>> stacks_;
  std::map<ir::ValueId, ir::ValueId> packed_;
  std::vector<ir::NodeId> made_;
};

}  // namespace

Status pack_weights(ir::Graph& graph, const CompileOptions& options) {
  if (options.plain_kernels) return ok_status();
  return Packer(graph, options).run();
}

}  // namespace firstlight::compiler
