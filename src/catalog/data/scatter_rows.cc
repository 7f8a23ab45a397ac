// SPDX-License-Identifier: Apache-2.0
// The kernels of scatter_rows.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"scatter_rows_f32_f32_ref", ops::OpKind::kScatterRows, Backend::kReference, {}, accepts_row_major},
    // The plain body shares its rows over the workers.
    {"scatter_rows_f32_f32_ref", ops::OpKind::kScatterRows, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> scatter_rows_rows() { return kRows; }

}  // namespace firstlight::catalog
