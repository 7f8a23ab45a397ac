// SPDX-License-Identifier: Apache-2.0
// The kernels of layer_norm.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"layer_norm_any_f32_ref", ops::OpKind::kLayerNorm, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"layer_norm_any_f32_ref", ops::OpKind::kLayerNorm, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> layer_norm_rows() { return kRows; }

}  // namespace firstlight::catalog
