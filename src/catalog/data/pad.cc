// SPDX-License-Identifier: Apache-2.0
// The kernels of pad.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"pad_any_f32_ref", ops::OpKind::kPad, Backend::kReference, {}, accepts_row_major},
    // The plain body shares its rows over the workers.
    {"pad_any_f32_ref", ops::OpKind::kPad, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> pad_rows() { return kRows; }

}  // namespace firstlight::catalog
