// SPDX-License-Identifier: Apache-2.0
// The kernels of append.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"append_f32_any_ref", ops::OpKind::kAppend, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"append_f32_any_ref", ops::OpKind::kAppend, Backend::kCpu, {}, accepts_row_major, -1},
    {"append_f32_any_avx2", ops::OpKind::kAppend, Backend::kCpu, kNeedsAvx2, accepts_row_major, 1},
};

}  // namespace

std::span<const KernelRow> append_rows() { return kRows; }

}  // namespace firstlight::catalog
