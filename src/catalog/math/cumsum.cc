// SPDX-License-Identifier: Apache-2.0
// The kernels of cumsum.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"cumsum_any_f32_ref", ops::OpKind::kCumsum, Backend::kReference, {}, accepts_row_major},
    // The plain body shares its rows over the workers.
    {"cumsum_any_f32_ref", ops::OpKind::kCumsum, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> cumsum_rows() { return kRows; }

}  // namespace firstlight::catalog
