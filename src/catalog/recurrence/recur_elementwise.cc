// SPDX-License-Identifier: Apache-2.0
// The kernels of recur_elementwise.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"recur_elementwise_f32_f32_ref", ops::OpKind::kRecurElementwise, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"recur_elementwise_f32_f32_ref", ops::OpKind::kRecurElementwise, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> recur_elementwise_rows() { return kRows; }

}  // namespace firstlight::catalog
