// SPDX-License-Identifier: Apache-2.0
// The kernels of recur_dplr.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"recur_dplr_f32_f32_ref", ops::OpKind::kRecurDplr, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"recur_dplr_f32_f32_ref", ops::OpKind::kRecurDplr, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> recur_dplr_rows() { return kRows; }

}  // namespace firstlight::catalog
