// SPDX-License-Identifier: Apache-2.0
// The kernels of cast.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"cast_any_any_ref", ops::OpKind::kCast, Backend::kReference, {}, accepts_row_major},
    // Never on the hot path.
    {"cast_any_any_ref", ops::OpKind::kCast, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> cast_rows() { return kRows; }

}  // namespace firstlight::catalog
