// SPDX-License-Identifier: Apache-2.0
// The kernels of stack.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"stack_any_any_ref", ops::OpKind::kStack, Backend::kReference, {}, accepts_row_major},
    // Moves bytes as fast as they come; the CPU has nothing better.
    {"stack_any_any_ref", ops::OpKind::kStack, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> stack_rows() { return kRows; }

}  // namespace firstlight::catalog
