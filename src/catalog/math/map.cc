// SPDX-License-Identifier: Apache-2.0
// The kernels of map.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"map_any_f32_ref", ops::OpKind::kMap, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"map_any_f32_ref", ops::OpKind::kMap, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> map_rows() { return kRows; }

}  // namespace firstlight::catalog
