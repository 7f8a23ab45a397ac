// SPDX-License-Identifier: Apache-2.0
// The kernels of index_mask.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"index_mask_i32_f32_ref", ops::OpKind::kIndexMask, Backend::kReference, {}, accepts_row_major},
    // A few elements per token.
    {"index_mask_i32_f32_ref", ops::OpKind::kIndexMask, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> index_mask_rows() { return kRows; }

}  // namespace firstlight::catalog
