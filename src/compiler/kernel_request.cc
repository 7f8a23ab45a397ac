// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_request.h"

#include <algorithm>

#include "compiler/compute_modes.h"
#include "compiler/fused_linear.h"

namespace firstlight::compiler {
namespace {

bool is_product(ops::OpKind op) {
  return op == ops::OpKind::kLinear || op == ops::OpKind::kBatchedLinear || op == ops::OpKind::kFusedLinear ||
         op == ops::OpKind::kRoute;
}

// The stored type of the weight a matrix product reads; f32 for everything else.
tensor::DType weight_dtype(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == ops::OpKind::kLinear || node.op == ops::OpKind::kBatchedLinear || node.op == ops::OpKind::kRoute) {
    return graph.value(node.operands[1]).type.dtype;
  }
  if (node.op == ops::OpKind::kFusedLinear) return graph.value(take_apart(node).weights[0]).type.dtype;
  return tensor::DType::kF32;
}

}  // namespace

KernelRequest::KernelRequest(const ir::Graph& graph, const ir::Node& node, const CompileOptions& options)
    : attributes(node.attributes), op(node.op) {
  for (const ir::ValueId id : node.operands) operands.push_back(graph.value(id).type);
  for (const ir::ValueId id : node.results) results.push_back(graph.value(id).type);
  const std::string wish = node.attributes.has("compute") ? node.attributes.get_string("compute") : "auto";
  const tensor::DType weight = weight_dtype(graph, node);
  mode = compute_mode_for(options, wish, weight);
  const auto first =
      std::find_if(operands.begin(), operands.end(), [](const tensor::Type& t) { return !t.is_state(); });
  stored = is_product(op) || first == operands.end() ? weight : first->dtype;
}

std::string KernelRequest::types_text() const {
  std::string text;
  for (const auto& type : operands) text += (text.empty() ? "" : ", ") + type.to_string();
  return text;
}

}  // namespace firstlight::compiler
