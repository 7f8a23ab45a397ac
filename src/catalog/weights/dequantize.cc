// SPDX-License-Identifier: Apache-2.0
// The kernels of dequantize.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"dequantize_any_f32_ref", ops::OpKind::kDequantize, Backend::kReference, {}, accepts_row_major},
    // Never on the hot path.
    {"dequantize_any_f32_ref", ops::OpKind::kDequantize, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> dequantize_rows() { return kRows; }

}  // namespace firstlight::catalog
