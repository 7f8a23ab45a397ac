// SPDX-License-Identifier: Apache-2.0
// map(f, linear(x, w0), linear(x, w1), r) becomes one fused_linear of x with weights w0 and w1, extra operand r and
// epilogue f, when nothing else reads the products. Products of another input, of another region (which may run less
// often) or in another compute mode stay operands.
#include <algorithm>

#include "compiler/compute_modes.h"
#include "compiler/fused_linear.h"
#include "compiler/fusion_rules.h"
#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

class EpilogueFuser {
 public:
  EpilogueFuser(ir::Graph& graph, const CompileOptions& options)
      : graph_(graph),
        options_(options),
        rules_(fusion_rules(options.execution)),
        uses_(ir::count_uses(graph)),
        users_(ir::find_users(graph)),
        regions_(ir::region_numbers(graph)) {}

  void visit(ir::NodeId id) {
    ir::Node& map = graph_.node(id);
    const tensor::Shape& shape = graph_.value(map.results[0]).type.shape;
    if (shape.size() != 2 || goes_with_norm(map)) return;
    FusedLinear fused;
    ops::Expression formula;
    std::vector<int32_t> inputs(map.operands.size(), -1);
    for (size_t i = 0; i < map.operands.size(); ++i) {
      const ir::Node* product = fusable_product(map.operands[i], shape, regions_[static_cast<size_t>(id)]);
      if (product == nullptr) continue;
      const FusedLinear part = take_apart(*product);
      if (fused.weights.empty()) {
        fused = part;
      } else if (part.x == fused.x && part.compute == fused.compute && mode_of(part) == mode_of(fused)) {
        fused.weights.push_back(part.weights[0]);
        fused.biases.push_back(part.biases[0]);
      } else {
        continue;
      }
      inputs[i] = formula.input(static_cast<int32_t>(fused.weights.size()) - 1);
    }
    if (fused.weights.empty()) return;
    for (size_t i = 0; i < map.operands.size(); ++i) {
      if (inputs[i] >= 0) continue;
      if (!fits_as_extra(graph_.value(map.operands[i]).type, shape)) return;
      fused.extras.push_back(map.operands[i]);
      inputs[i] = formula.input(static_cast<int32_t>(fused.weights.size() + fused.extras.size()) - 1);
    }
    formula.set_result(formula.inlined(map.attributes.get_expression("expr"), inputs));
    if (!formula.within_limits()) return;
    fused.epilogue = {std::move(formula)};
    map.op = ops::OpKind::kFusedLinear;
    map.operands = operands_of(fused);
    map.attributes = attributes_of(fused);
  }

 private:
  // A sum that a norm reads stays apart for fuse_rows, where the target wants it so.
  bool goes_with_norm(const ir::Node& map) const {
    if (!rules_.residual_with_norm) return false;
    const auto& users = users_[static_cast<size_t>(map.results[0])];
    return std::any_of(users.begin(), users.end(), [&](ir::NodeId id) {
      return id >= 0 && (graph_.node(id).op == ops::OpKind::kRmsNorm || graph_.node(id).op == ops::OpKind::kLayerNorm);
    });
  }

  // The plain, single-weight product that makes `id` for this map alone.
  const ir::Node* fusable_product(ir::ValueId id, const tensor::Shape& shape, int32_t region) const {
    const ir::Value& value = graph_.value(id);
    if (value.producer < 0 || uses_[static_cast<size_t>(id)] != 1 || value.type.shape != shape) return nullptr;
    const ir::Node& node = graph_.node(value.producer);
    if (node.op != ops::OpKind::kFusedLinear || node.results.size() != 1) return nullptr;
    if (regions_[static_cast<size_t>(value.producer)] != region) return nullptr;
    return node.attributes.get_expressions("epilogue").empty() ? &node : nullptr;
  }

  catalog::ComputeMode mode_of(const FusedLinear& fused) const {
    return compute_mode_for(options_, fused.compute, graph_.value(fused.weights[0]).type.dtype);
  }

  static bool fits_as_extra(const tensor::Type& type, const tensor::Shape& shape) {
    if (type.is_state() || type.dtype != tensor::DType::kF32) return false;
    return type.shape == shape || (type.shape.size() == 1 && type.shape[0] == shape[1]);
  }

  ir::Graph& graph_;
  const CompileOptions& options_;
  const FusionRules rules_;
  std::vector<int32_t> uses_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<int32_t> regions_;
};

}  // namespace

Status fuse_epilogues(ir::Graph& graph, const CompileOptions& options) {
  EpilogueFuser fuser(graph, options);
  ir::for_each_region(graph, [&](ir::Region& region) {
    for (const ir::NodeId id : region.nodes) {
      if (graph.node(id).op == ops::OpKind::kMap) fuser.visit(id);
    }
  });
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
