// SPDX-License-Identifier: Apache-2.0
// The kernels of gather_last.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"gather_last_any_any_ref", ops::OpKind::kGatherLast, Backend::kReference, {}, accepts_row_major},
    // A few elements per token.
    {"gather_last_any_any_ref", ops::OpKind::kGatherLast, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> gather_last_rows() { return kRows; }

}  // namespace firstlight::catalog
