// SPDX-License-Identifier: Apache-2.0
// The bodies of this build, one function per file that defines some; kernels/registry.cc lists them.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace firstlight::kernels {

KernelBody gather_rows_reference();
KernelBody gather_last_reference();
KernelBody reshape_reference();
KernelBody transpose_reference();
KernelBody slice_reference();
KernelBody concat_reference();
KernelBody stack_reference();
KernelBody cast_reference();
KernelBody constant_reference();
KernelBody map_reference();
KernelBody reduce_reference();
KernelBody softmax_reference();
KernelBody top_k_reference();
KernelBody index_mask_reference();
KernelBody take_reference();
KernelBody pad_reference();
KernelBody scatter_rows_reference();
KernelBody cumsum_reference();
KernelBody imap_reference();
KernelBody einsum_reference();
KernelBody conv2d_reference();
KernelBody pool2d_reference();
KernelBody interp2d_reference();
KernelBody fake_quant_reference();
KernelBody fused_rows_reference();
KernelBody rms_norm_reference();
KernelBody layer_norm_reference();
KernelBody linear_reference();
KernelBody batched_linear_reference();
KernelBody fused_linear_reference();
KernelBody route_reference();
KernelBody rope_reference();
KernelBody append_reference();
KernelBody attend_reference();
KernelBody attend_segments_reference();
KernelBody index_scores_reference();
KernelBody window_emit_reference();
KernelBody recent_tokens_reference();
KernelBody shift_reference();
KernelBody conv1d_reference();
KernelBody recur_gla_reference();
KernelBody recur_delta_reference();
KernelBody recur_selective_reference();
KernelBody recur_elementwise_reference();
KernelBody recur_dplr_reference();
KernelBody rope_append_reference();
KernelBody dequantize_reference();
KernelBody pack_mxfp4_reference();
KernelBody assemble_weight_reference();

std::span<const KernelBody> fake_quant_cpu_bodies();
std::span<const KernelBody> map_cpu_bodies();
std::span<const KernelBody> softmax_cpu_bodies();
std::span<const KernelBody> rms_norm_cpu_bodies();
std::span<const KernelBody> layer_norm_cpu_bodies();
std::span<const KernelBody> rope_cpu_bodies();
std::span<const KernelBody> append_cpu_bodies();
std::span<const KernelBody> attend_cpu_bodies();
std::span<const KernelBody> recent_tokens_cpu_bodies();
std::span<const KernelBody> shift_cpu_bodies();
std::span<const KernelBody> index_scores_cpu_bodies();
std::span<const KernelBody> conv1d_cpu_bodies();
std::span<const KernelBody> recur_gla_cpu_bodies();
std::span<const KernelBody> recur_delta_cpu_bodies();
std::span<const KernelBody> recur_selective_cpu_bodies();
std::span<const KernelBody> recur_elementwise_cpu_bodies();
std::span<const KernelBody> recur_dplr_cpu_bodies();
std::span<const KernelBody> fused_rows_cpu_bodies();
std::span<const KernelBody> rope_append_cpu_bodies();

}  // namespace firstlight::kernels
