// SPDX-License-Identifier: Apache-2.0
// One function per operator file; ops/table.cc calls each once.
#pragma once

#include "ops/op.h"

namespace firstlight::ops {

OpDef gather_rows_def();
OpDef gather_last_def();
OpDef reshape_def();
OpDef transpose_def();
OpDef slice_def();
OpDef concat_def();
OpDef stack_def();
OpDef cast_def();
OpDef take_def();
OpDef pad_def();
OpDef scatter_rows_def();
OpDef constant_def();
OpDef map_def();
OpDef reduce_def();
OpDef softmax_def();
OpDef top_k_def();
OpDef index_mask_def();
OpDef cumsum_def();
OpDef imap_def();
OpDef fake_quant_def();
OpDef fused_rows_def();
OpDef rms_norm_def();
OpDef layer_norm_def();
OpDef linear_def();
OpDef batched_linear_def();
OpDef fused_linear_def();
OpDef einsum_def();
OpDef route_def();
OpDef rope_def();
OpDef append_def();
OpDef attend_def();
OpDef attend_segments_def();
OpDef index_scores_def();
OpDef window_emit_def();
OpDef conv2d_def();
OpDef pool2d_def();
OpDef interp2d_def();
OpDef recent_tokens_def();
OpDef shift_def();
OpDef conv1d_def();
OpDef recur_gla_def();
OpDef recur_delta_def();
OpDef recur_selective_def();
OpDef recur_elementwise_def();
OpDef recur_dplr_def();
OpDef rope_append_def();
OpDef dequantize_def();
OpDef pack_mxfp4_def();
OpDef assemble_weight_def();
OpDef pack_weight_def();
OpDef per_expert_def();
OpDef if_def();
OpDef repeat_def();

}  // namespace firstlight::ops
