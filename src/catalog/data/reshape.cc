// SPDX-License-Identifier: Apache-2.0
// The kernels of reshape.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"reshape_any_any_ref", ops::OpKind::kReshape, Backend::kReference, {}, accepts_row_major},
    // Moves bytes as fast as they come; the CPU has nothing better.
    {"reshape_any_any_ref", ops::OpKind::kReshape, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> reshape_rows() { return kRows; }

}  // namespace firstlight::catalog
