// SPDX-License-Identifier: Apache-2.0
// The kernels of einsum.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"einsum_any_f32_ref", ops::OpKind::kEinsum, Backend::kReference, {}, accepts_row_major},
    // The plain body shares its rows over the workers.
    {"einsum_any_f32_ref", ops::OpKind::kEinsum, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> einsum_rows() { return kRows; }

}  // namespace firstlight::catalog
