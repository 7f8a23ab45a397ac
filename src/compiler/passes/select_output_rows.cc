// SPDX-License-Identifier: Apache-2.0
// A spec's logits have a row per token; a run wants some of them. The selection is a node of its own behind each
// per-token output; narrow_to_outputs may move it up.
#include <array>

#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {

Status select_output_rows(ir::Graph& graph, const CompileOptions& options) {
  if (options.every_row) return ok_status();
  ir::ValueId rows = -1;
  for (const ir::ValueId id : graph.body.parameters) {
    if (graph.value(id).name == "output_rows") rows = id;
  }
  for (ir::ValueId& output : graph.body.yields) {
    const tensor::Type& type = graph.value(output).type;
    if (type.is_state() || type.shape.empty() || type.shape[0] != tensor::Dim(1, tensor::Symbol::kTokens)) continue;
    if (rows < 0) {
      rows = static_cast<ir::ValueId>(graph.values.size());
      graph.values.push_back(
          {.kind = ir::Value::Kind::kInput,
           .name = "output_rows",
           .type = tensor::Type::tensor(tensor::DType::kI32, {tensor::Dim(1, tensor::Symbol::kOutputs)}),
           .producer = -1,
           .state = -1});
      graph.body.parameters.push_back(rows);
    }
    const std::array operands = {output, rows};
    const ir::NodeId node = FL_TRY(ir::create_node(graph, ops::OpKind::kGatherRows, operands, {}, {}, "output"));
    graph.body.nodes.push_back(node);
    output = graph.node(node).results[0];
  }
  return ok_status();
}

}  // namespace firstlight::compiler
