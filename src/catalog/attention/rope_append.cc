// SPDX-License-Identifier: Apache-2.0
// The kernels of rope_append.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"rope_append_f32_any_ref", ops::OpKind::kRopeAppend, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"rope_append_f32_any_ref", ops::OpKind::kRopeAppend, Backend::kCpu, {}, accepts_row_major, -1},
    {"rope_append_f32_any_avx2", ops::OpKind::kRopeAppend, Backend::kCpu, kNeedsAvx2, accepts_row_major, 1},
    {"rope_append_f32_any_avx512", ops::OpKind::kRopeAppend, Backend::kCpu, kNeedsAvx512, accepts_row_major, 2},
};

}  // namespace

std::span<const KernelRow> rope_append_rows() { return kRows; }

}  // namespace firstlight::catalog
