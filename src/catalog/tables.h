// SPDX-License-Identifier: Apache-2.0
// One function per operator: the rows of its table. catalog/kernels.cc puts them together.
#pragma once

#include <span>

#include "catalog/kernel_row.h"

namespace firstlight::catalog {

// Rows that serve every signature the operator's own rules admit, as long as all operands lie row-major.
bool accepts_row_major(const Signature& signature);
// The same, and the first operand is float32.
bool accepts_f32_rows(const Signature& signature);

// What the CPU kernels compiled for AVX-512 need: the build lets the compiler use all of it in them.
inline constexpr target::Features kNeedsAvx2{target::kAvx2};
inline constexpr target::Features kNeedsAvx512{target::kAvx512 | target::kAvx512Vnni | target::kAvx512Bf16};

std::span<const KernelRow> gather_rows_rows();
std::span<const KernelRow> gather_last_rows();
std::span<const KernelRow> reshape_rows();
std::span<const KernelRow> transpose_rows();
std::span<const KernelRow> slice_rows();
std::span<const KernelRow> concat_rows();
std::span<const KernelRow> stack_rows();
std::span<const KernelRow> cast_rows();
std::span<const KernelRow> constant_rows();
std::span<const KernelRow> map_rows();
std::span<const KernelRow> reduce_rows();
std::span<const KernelRow> softmax_rows();
std::span<const KernelRow> top_k_rows();
std::span<const KernelRow> index_mask_rows();
std::span<const KernelRow> take_rows();
std::span<const KernelRow> pad_rows();
std::span<const KernelRow> scatter_rows_rows();
std::span<const KernelRow> cumsum_rows();
std::span<const KernelRow> imap_rows();
std::span<const KernelRow> einsum_rows();
std::span<const KernelRow> conv2d_rows();
std::span<const KernelRow> pool2d_rows();
std::span<const KernelRow> interp2d_rows();
std::span<const KernelRow> fake_quant_rows();
std::span<const KernelRow> fused_rows_rows();
std::span<const KernelRow> rms_norm_rows();
std::span<const KernelRow> layer_norm_rows();
std::span<const KernelRow> linear_reference_rows();  // linear, batched_linear, fused_linear and route
std::span<const KernelRow> linear_cpu_rows();        // the same and pack_weight
// Of all device backends: written down once, with kSimt as the backend.
std::span<const KernelRow> dialect_rows();
std::span<const KernelRow> rope_rows();
std::span<const KernelRow> append_rows();
std::span<const KernelRow> attend_rows();  // and attend_segments
std::span<const KernelRow> index_scores_rows();
std::span<const KernelRow> window_emit_rows();
std::span<const KernelRow> recent_tokens_rows();
std::span<const KernelRow> shift_rows();
std::span<const KernelRow> conv1d_rows();
std::span<const KernelRow> recur_gla_rows();
std::span<const KernelRow> recur_delta_rows();
std::span<const KernelRow> recur_selective_rows();
std::span<const KernelRow> recur_elementwise_rows();
std::span<const KernelRow> recur_dplr_rows();
std::span<const KernelRow> rope_append_rows();
std::span<const KernelRow> dequantize_rows();
std::span<const KernelRow> pack_mxfp4_rows();
std::span<const KernelRow> assemble_weight_rows();

}  // namespace firstlight::catalog
