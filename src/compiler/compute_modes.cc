// SPDX-License-Identifier: Apache-2.0
#include "compiler/compute_modes.h"

#include <algorithm>

#include "catalog/tables.h"
#include "compiler/fused_linear.h"

namespace firstlight::compiler {
namespace {

using catalog::ComputeMode;

ComputeMode chosen_mode(const CompileOptions& options, tensor::DType weight) {
  // Block formats of whole numbers (and of E2M1, whose doubles are whole).
  const bool quantised = tensor::dtype_info(weight).is_quantised && weight != tensor::DType::kFP8G;
  // Weights of vendors' own formats are exact in float32 and computed so unless asked otherwise (docs/numerics.md).
  const bool exact = weight == tensor::DType::kInt4G || weight == tensor::DType::kInt8G ||
                     weight == tensor::DType::kFP8G || weight == tensor::DType::kNVFP4;
  const bool fits_bf16 =
      weight == tensor::DType::kBF16 || weight == tensor::DType::kF8E4M3 || weight == tensor::DType::kF8E5M2;
  const ComputeMode natural = exact       ? ComputeMode::kF32
                              : quantised ? ComputeMode::kInt8
                              : fits_bf16 ? ComputeMode::kBf16
                                          : ComputeMode::kF32;
  if (!options.compute) return natural;
  // Integer products need integer weights; floats keep to the widest that loses nothing of theirs.
  if (*options.compute == ComputeMode::kInt8 && !quantised) return natural;
  return *options.compute;
}

}  // namespace

catalog::ComputeMode compute_mode_for(const CompileOptions& options, std::string_view node_wish, tensor::DType weight) {
  // Kernels of the device dialect decode weights exactly and sum in float32.
  const bool exact = options.backend == catalog::Backend::kReference || catalog::is_device(options.backend);
  if (exact || node_wish == "f32") return ComputeMode::kF32;
  const ComputeMode chosen = chosen_mode(options, weight);
  return node_wish == "bf16" && chosen == ComputeMode::kInt8 ? ComputeMode::kBf16 : chosen;
}

tensor::DType product_weight(const ir::Graph& graph, const ir::Node& node) {
  switch (node.op) {
    case ops::OpKind::kLinear:
    case ops::OpKind::kBatchedLinear:
    case ops::OpKind::kRoute:
      return graph.value(node.operands[1]).type.dtype;
    case ops::OpKind::kFusedLinear:
      return graph.value(take_apart(node).weights[0]).type.dtype;
    default:
      return tensor::DType::kF32;
  }
}

bool is_product(ops::OpKind op) {
  return op == ops::OpKind::kLinear || op == ops::OpKind::kBatchedLinear || op == ops::OpKind::kFusedLinear ||
         op == ops::OpKind::kRoute;
}

bool rounds_products(const ir::Graph& graph, const CompileOptions& options) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) {
    return is_product(node.op) && compute_mode_for(options, node.attributes.get_string("compute"),
                                                   product_weight(graph, node)) != ComputeMode::kF32;
  });
}

ComputeMode attend_mode(const ir::Graph& graph, const CompileOptions& options) {
  const bool coarse =
      options.state_dtype == tensor::DType::kBF16 || tensor::dtype_info(options.state_dtype).is_quantised;
  const bool rounds = options.backend == catalog::Backend::kCpu && coarse && rounds_products(graph, options);
  return rounds ? ComputeMode::kBf16 : ComputeMode::kF32;
}

tensor::DType usual_state_dtype(const ir::Graph& graph, const CompileOptions& options) {
  if (options.backend == catalog::Backend::kReference) return tensor::DType::kF32;
  const bool has_form = options.backend == catalog::Backend::kCpu && options.features.has(catalog::kNeedsAvx512);
  return has_form && rounds_products(graph, options) ? tensor::DType::kBF16 : tensor::DType::kF16;
}

}  // namespace firstlight::compiler
