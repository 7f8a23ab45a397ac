// SPDX-License-Identifier: Apache-2.0
// The kernels of conv1d.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"conv1d_f32_f32_ref", ops::OpKind::kConv1d, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"conv1d_f32_f32_ref", ops::OpKind::kConv1d, Backend::kCpu, {}, accepts_row_major, -1},
};

}  // namespace

std::span<const KernelRow> conv1d_rows() { return kRows; }

}  // namespace firstlight::catalog
