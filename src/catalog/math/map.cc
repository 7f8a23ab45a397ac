// SPDX-License-Identifier: Apache-2.0
// The kernels of map.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"map_any_f32_ref", ops::OpKind::kMap, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"map_any_f32_ref", ops::OpKind::kMap, Backend::kCpu, {}, accepts_row_major, -1},
    {"map_any_f32_avx2", ops::OpKind::kMap, Backend::kCpu, kNeedsAvx2, accepts_row_major, 1},
    {"map_any_f32_avx512", ops::OpKind::kMap, Backend::kCpu, kNeedsAvx512, accepts_row_major, 2},
};

}  // namespace

std::span<const KernelRow> map_rows() { return kRows; }

}  // namespace firstlight::catalog
