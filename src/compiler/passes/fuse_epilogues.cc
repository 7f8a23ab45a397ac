// SPDX-License-Identifier: Apache-2.0
// map(f, linear(x, w0), linear(x, w1), r) becomes one fused_linear of x with weights w0 and w1, extra operand r and
// epilogue f, when nothing else reads the products. Products of another input stay operands.
#include <algorithm>

#include "compiler/fused_linear.h"
#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {
namespace {

class EpilogueFuser {
 public:
  EpilogueFuser(ir::Graph& graph, std::vector<int32_t> uses) : graph_(graph), uses_(std::move(uses)) {}

  void visit(ir::Node& map) {
    const tensor::Shape& shape = graph_.value(map.results[0]).type.shape;
    if (shape.size() != 2) return;
    FusedLinear fused;
    ops::Expression formula;
    std::vector<int32_t> inputs(map.operands.size(), -1);
    for (size_t i = 0; i < map.operands.size(); ++i) {
      const ir::Node* product = fusable_product(map.operands[i], shape);
      if (product == nullptr) continue;
      const FusedLinear part = take_apart(*product);
      if (fused.weights.empty()) {
        fused = part;
      } else if (part.x == fused.x && part.compute == fused.compute) {
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
    fused.epilogue = {std::move(formula)};
    map.op = ops::OpKind::kFusedLinear;
    map.operands = operands_of(fused);
    map.attributes = attributes_of(fused);
  }

 private:
  // The plain, single-weight product that makes `id` for this map alone.
  const ir::Node* fusable_product(ir::ValueId id, const tensor::Shape& shape) const {
    const ir::Value& value = graph_.value(id);
    if (value.producer < 0 || uses_[static_cast<size_t>(id)] != 1 || value.type.shape != shape) return nullptr;
    const ir::Node& node = graph_.node(value.producer);
    if (node.op != ops::OpKind::kFusedLinear || node.results.size() != 1) return nullptr;
    return node.attributes.get_expressions("epilogue").empty() ? &node : nullptr;
  }

  static bool fits_as_extra(const tensor::Type& type, const tensor::Shape& shape) {
    if (type.is_state() || type.dtype != tensor::DType::kF32) return false;
    return type.shape == shape || (type.shape.size() == 1 && type.shape[0] == shape[1]);
  }

  ir::Graph& graph_;
  std::vector<int32_t> uses_;
};

}  // namespace

Status fuse_epilogues(ir::Graph& graph, const CompileOptions&) {
  EpilogueFuser fuser(graph, ir::count_uses(graph));
  ir::for_each_region(graph, [&](ir::Region& region) {
    for (const ir::NodeId id : region.nodes) {
      if (graph.node(id).op == ops::OpKind::kMap) fuser.visit(graph.node(id));
    }
  });
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
