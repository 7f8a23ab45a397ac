// SPDX-License-Identifier: Apache-2.0
// The bodies by symbol: an explicit list, so that what a build can run is read in one place.
#include <string>
#include <unordered_map>

#include "kernels/bodies.h"
#include "kernels/linear/bodies.h"

namespace firstlight::kernels {
namespace {

using OneBody = KernelBody (*)();
constexpr OneBody kBodies[] = {
    gather_rows_reference,
    gather_last_reference,
    reshape_reference,
    transpose_reference,
    slice_reference,
    concat_reference,
    stack_reference,
    cast_reference,
    map_reference,
    reduce_reference,
    softmax_reference,
    top_k_reference,
    index_mask_reference,
    rms_norm_reference,
    layer_norm_reference,
    linear_reference,
    batched_linear_reference,
    fused_linear_reference,
    rope_reference,
    append_reference,
    attend_reference,
    dequantize_reference,
    pack_mxfp4_reference,
    fake_quant_reference,
    assemble_weight_reference,
    take_reference,
    pad_reference,
    scatter_rows_reference,
    cumsum_reference,
    imap_reference,
    einsum_reference,
    conv2d_reference,
    pool2d_reference,
    interp2d_reference,
    recent_tokens_reference,
    shift_reference,
    conv1d_reference,
    recur_gla_reference,
    recur_delta_reference,
    recur_selective_reference,
    recur_elementwise_reference,
    recur_dplr_reference,
    attend_segments_reference,
    index_scores_reference,
    window_emit_reference,
    constant_reference,
    fused_rows_reference,
    route_reference,
    rope_append_reference,
};

using Bodies = std::span<const KernelBody> (*)();
constexpr Bodies kFamilies[] = {cpu_linear_bodies,
                                cpu_fused_linear_bodies,
                                cpu_batched_linear_bodies,
                                cpu_pack_weight_bodies,
                                rms_norm_cpu_bodies,
                                layer_norm_cpu_bodies,
                                softmax_cpu_bodies,
                                map_cpu_bodies,
                                rope_cpu_bodies,
                                append_cpu_bodies,
                                attend_cpu_bodies,
                                fake_quant_cpu_bodies,
                                recent_tokens_cpu_bodies,
                                shift_cpu_bodies,
                                conv1d_cpu_bodies,
                                recur_gla_cpu_bodies,
                                recur_delta_cpu_bodies,
                                recur_selective_cpu_bodies,
                                recur_elementwise_cpu_bodies,
                                recur_dplr_cpu_bodies,
                                index_scores_cpu_bodies,
                                fused_rows_cpu_bodies,
                                rope_append_cpu_bodies,
                                cpu_route_bodies};

std::unordered_map<std::string_view, KernelBody> collect() {
  std::unordered_map<std::string_view, KernelBody> bodies;
  for (const OneBody body : kBodies) {
    const KernelBody one = body();
    FL_CHECK(bodies.emplace(one.symbol, one).second);
  }
  for (const Bodies family : kFamilies) {
    for (const KernelBody& one : family()) FL_CHECK(bodies.emplace(one.symbol, one).second);
  }
  return bodies;
}

}  // namespace

const KernelBody* find_kernel(std::string_view symbol) {
  static const std::unordered_map<std::string_view, KernelBody> bodies = collect();
  const auto found = bodies.find(symbol);
  return found == bodies.end() ? nullptr : &found->second;
}

}  // namespace firstlight::kernels
