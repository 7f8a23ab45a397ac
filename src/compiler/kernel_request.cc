// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_request.h"

#include <algorithm>

#include "compiler/compute_modes.h"

namespace firstlight::compiler {
KernelRequest::KernelRequest(const ir::Graph& graph, const ir::Node& node, const CompileOptions& options)
    : attributes(node.attributes), op(node.op) {
  for (const ir::ValueId id : node.operands) operands.push_back(graph.value(id).type);
  for (const ir::ValueId id : node.results) results.push_back(graph.value(id).type);
  const std::string wish = node.attributes.has("compute") ? node.attributes.get_string("compute") : "auto";
  const tensor::DType weight = product_weight(graph, node);
  const bool attends = op == ops::OpKind::kAttend || op == ops::OpKind::kAttendSegments;
  mode = attends ? attend_mode(graph, options) : compute_mode_for(options, wish, weight);
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
