// SPDX-License-Identifier: Apache-2.0
// The kernels of conv2d.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"conv2d_any_f32_ref", ops::OpKind::kConv2d, Backend::kReference, {}, accepts_row_major},
    // The plain body shares its rows over the workers.
    {"conv2d_any_f32_ref", ops::OpKind::kConv2d, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> conv2d_rows() { return kRows; }

}  // namespace firstlight::catalog
