// SPDX-License-Identifier: Apache-2.0
// The kernels of recur_dplr.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"recur_dplr_f32_f32_ref", ops::OpKind::kRecurDplr, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"recur_dplr_f32_f32_ref", ops::OpKind::kRecurDplr, Backend::kCpu, {}, accepts_row_major, -1},
    {"recur_dplr_f32_f32_avx2", ops::OpKind::kRecurDplr, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
    {"recur_dplr_f32_f32_avx512", ops::OpKind::kRecurDplr, Backend::kCpu, kNeedsAvx512, accepts_f32_rows, 2},
};

}  // namespace

std::span<const KernelRow> recur_dplr_rows() { return kRows; }

}  // namespace firstlight::catalog
