// SPDX-License-Identifier: Apache-2.0
// The kernels of recur_elementwise.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"recur_elementwise_f32_f32_ref", ops::OpKind::kRecurElementwise, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"recur_elementwise_f32_f32_ref", ops::OpKind::kRecurElementwise, Backend::kCpu, {}, accepts_row_major, -1},
    {"recur_elementwise_f32_f32_avx2", ops::OpKind::kRecurElementwise, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
    {"recur_elementwise_f32_f32_avx512", ops::OpKind::kRecurElementwise, Backend::kCpu, kNeedsAvx512, accepts_f32_rows,
     2},
};

}  // namespace

std::span<const KernelRow> recur_elementwise_rows() { return kRows; }

}  // namespace firstlight::catalog
