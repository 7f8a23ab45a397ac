// SPDX-License-Identifier: Apache-2.0
// The kernels of layer_norm.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"layer_norm_any_f32_ref", ops::OpKind::kLayerNorm, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"layer_norm_any_f32_ref", ops::OpKind::kLayerNorm, Backend::kCpu, {}, accepts_row_major, -1},
    {"layer_norm_f32_f32_avx2", ops::OpKind::kLayerNorm, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
    {"layer_norm_f32_f32_avx512", ops::OpKind::kLayerNorm, Backend::kCpu, kNeedsAvx512, accepts_f32_rows, 2},
};

}  // namespace

std::span<const KernelRow> layer_norm_rows() { return kRows; }

}  // namespace firstlight::catalog
