// SPDX-License-Identifier: Apache-2.0
// linear(x, w, b) with x[rows, K] becomes fused_linear(x, w, b) with nothing fused yet: one form for the passes behind.
#include "compiler/fused_linear.h"
#include "compiler/passes/passes.h"

namespace firstlight::compiler {

Status widen_linears(ir::Graph& graph, const CompileOptions&) {
  for (ir::Node& node : graph.nodes) {
    if (node.op != ops::OpKind::kLinear || graph.value(node.operands[0]).type.shape.size() != 2) continue;
    if (is_static(graph.value(node.operands[0]).type.shape)) continue;  // weights times weights, at load
    FusedLinear fused;
    fused.x = node.operands[0];
    fused.weights = {node.operands[1]};
    fused.biases = {node.operands.size() > 2 ? std::optional(node.operands[2]) : std::nullopt};
    fused.compute = node.attributes.get_string("compute");
    node.op = ops::OpKind::kFusedLinear;
    node.operands = operands_of(fused);
    node.attributes = attributes_of(fused);
  }
  return ok_status();
}

}  // namespace firstlight::compiler
