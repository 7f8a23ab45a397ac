// SPDX-License-Identifier: Apache-2.0
// The kernels of recur_selective.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"recur_selective_f32_f32_ref", ops::OpKind::kRecurSelective, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"recur_selective_f32_f32_ref", ops::OpKind::kRecurSelective, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> recur_selective_rows() { return kRows; }

}  // namespace firstlight::catalog
