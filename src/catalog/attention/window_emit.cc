// SPDX-License-Identifier: Apache-2.0
// Kernels of window_emit. It moves whole rows: one body serves both backends.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"window_emit_f32_f32_ref", ops::OpKind::kWindowEmit, Backend::kReference, {}, accepts_row_major},
    {"window_emit_f32_f32_ref", ops::OpKind::kWindowEmit, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> window_emit_rows() { return kRows; }

}  // namespace firstlight::catalog
