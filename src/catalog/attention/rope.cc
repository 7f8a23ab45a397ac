// SPDX-License-Identifier: Apache-2.0
// The kernels of rope.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"rope_f32_f32_ref", ops::OpKind::kRope, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"rope_f32_f32_ref", ops::OpKind::kRope, Backend::kCpu, {}, accepts_row_major, -1},
    {"rope_f32_f32_avx2", ops::OpKind::kRope, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
};

}  // namespace

std::span<const KernelRow> rope_rows() { return kRows; }

}  // namespace firstlight::catalog
