// SPDX-License-Identifier: Apache-2.0
// The kernels of fused_rows.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"fused_rows_any_f32_ref", ops::OpKind::kFusedRows, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"fused_rows_any_f32_ref", ops::OpKind::kFusedRows, Backend::kCpu, {}, accepts_row_major, -1},
    {"fused_rows_any_f32_avx2", ops::OpKind::kFusedRows, Backend::kCpu, kNeedsAvx2, accepts_row_major, 1},
    {"fused_rows_any_f32_avx512", ops::OpKind::kFusedRows, Backend::kCpu, kNeedsAvx512, accepts_row_major, 2},
};

}  // namespace

std::span<const KernelRow> fused_rows_rows() { return kRows; }

}  // namespace firstlight::catalog
