// SPDX-License-Identifier: Apache-2.0
#include "compiler/compute_modes.h"

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

}  // namespace firstlight::compiler
