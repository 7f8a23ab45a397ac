// SPDX-License-Identifier: Apache-2.0
// The kernels of attend.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"attend_any_f32_ref", ops::OpKind::kAttend, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"attend_any_f32_ref", ops::OpKind::kAttend, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> attend_rows() { return kRows; }

}  // namespace firstlight::catalog
