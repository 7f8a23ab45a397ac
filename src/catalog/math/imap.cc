// SPDX-License-Identifier: Apache-2.0
// The kernels of imap.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"imap_any_any_ref", ops::OpKind::kImap, Backend::kReference, {}, accepts_row_major},
    // The plain body shares its rows over the workers.
    {"imap_any_any_ref", ops::OpKind::kImap, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> imap_rows() { return kRows; }

}  // namespace firstlight::catalog
