// SPDX-License-Identifier: Apache-2.0
// The kernels of recur_gla.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"recur_gla_f32_f32_ref", ops::OpKind::kRecurGla, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"recur_gla_f32_f32_ref", ops::OpKind::kRecurGla, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> recur_gla_rows() { return kRows; }

}  // namespace firstlight::catalog
