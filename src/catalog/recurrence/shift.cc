// SPDX-License-Identifier: Apache-2.0
// The kernels of shift.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"shift_f32_f32_ref", ops::OpKind::kShift, Backend::kReference, {}, accepts_row_major},
    {"shift_f32_f32_cpu", ops::OpKind::kShift, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> shift_rows() { return kRows; }

}  // namespace firstlight::catalog
