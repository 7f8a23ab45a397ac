// SPDX-License-Identifier: Apache-2.0
#include "compiler/compute_modes.h"

namespace firstlight::compiler {

catalog::ComputeMode compute_mode_for(const CompileOptions& options, std::string_view node_wish, tensor::DType weight) {
  using catalog::ComputeMode;
  if (options.backend == catalog::Backend::kReference || node_wish == "f32") return ComputeMode::kF32;
  const bool quantised = tensor::dtype_info(weight).is_quantised;
  const ComputeMode natural = quantised                                                        ? ComputeMode::kInt8
                              : weight == tensor::DType::kF32 || weight == tensor::DType::kF64 ? ComputeMode::kF32
                                                                                               : ComputeMode::kBf16;
  if (!options.compute) return natural;
  // Integer products need integer weights; floats keep to the widest that loses nothing of theirs.
  if (*options.compute == ComputeMode::kInt8 && !quantised) return natural;
  return *options.compute;
}

std::string_view compute_mode_name(catalog::ComputeMode mode) {
  switch (mode) {
    case catalog::ComputeMode::kF32:
      return "f32";
    case catalog::ComputeMode::kBf16:
      return "bf16";
    case catalog::ComputeMode::kInt8:
      return "int8";
  }
  return "unknown";
}

}  // namespace firstlight::compiler
