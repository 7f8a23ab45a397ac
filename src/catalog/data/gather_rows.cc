// SPDX-License-Identifier: Apache-2.0
// The kernels of gather_rows.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"gather_rows_any_any_ref", ops::OpKind::kGatherRows, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"gather_rows_any_any_ref", ops::OpKind::kGatherRows, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> gather_rows_rows() { return kRows; }

}  // namespace firstlight::catalog
