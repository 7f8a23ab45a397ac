// SPDX-License-Identifier: Apache-2.0
// The kernels of take.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"take_any_any_ref", ops::OpKind::kTake, Backend::kReference, {}, accepts_row_major},
    // The plain body shares its rows over the workers.
    {"take_any_any_ref", ops::OpKind::kTake, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> take_rows() { return kRows; }

}  // namespace firstlight::catalog
