// SPDX-License-Identifier: Apache-2.0
// The kernels of transpose.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"transpose_any_any_ref", ops::OpKind::kTranspose, Backend::kReference, {}, accepts_row_major},
    // Moves bytes as fast as they come; the CPU has nothing better.
    {"transpose_any_any_ref", ops::OpKind::kTranspose, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> transpose_rows() { return kRows; }

}  // namespace firstlight::catalog
