// SPDX-License-Identifier: Apache-2.0
// The kernels of constant.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"constant_f32_ref", ops::OpKind::kConstant, Backend::kReference, {}, accepts_row_major},
    {"constant_f32_ref", ops::OpKind::kConstant, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> constant_rows() { return kRows; }

}  // namespace firstlight::catalog
