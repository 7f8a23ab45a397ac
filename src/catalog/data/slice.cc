// SPDX-License-Identifier: Apache-2.0
// The kernels of slice.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"slice_any_any_ref", ops::OpKind::kSlice, Backend::kReference, {}, accepts_row_major},
    // Moves bytes as fast as they come; the CPU has nothing better.
    {"slice_any_any_ref", ops::OpKind::kSlice, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> slice_rows() { return kRows; }

}  // namespace firstlight::catalog
