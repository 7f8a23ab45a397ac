// SPDX-License-Identifier: Apache-2.0
// The kernels of pool2d.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"pool2d_any_f32_ref", ops::OpKind::kPool2d, Backend::kReference, {}, accepts_row_major},
    // The plain body shares its rows over the workers.
    {"pool2d_any_f32_ref", ops::OpKind::kPool2d, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> pool2d_rows() { return kRows; }

}  // namespace firstlight::catalog
