// SPDX-License-Identifier: Apache-2.0
// The kernels of concat.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"concat_any_any_ref", ops::OpKind::kConcat, Backend::kReference, {}, accepts_row_major},
    // Moves bytes as fast as they come; the CPU has nothing better.
    {"concat_any_any_ref", ops::OpKind::kConcat, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> concat_rows() { return kRows; }

}  // namespace firstlight::catalog
