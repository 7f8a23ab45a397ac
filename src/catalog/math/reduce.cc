// SPDX-License-Identifier: Apache-2.0
// The kernels of reduce.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"reduce_any_f32_ref", ops::OpKind::kReduce, Backend::kReference, {}, accepts_row_major},
    // A few elements per token.
    {"reduce_any_f32_ref", ops::OpKind::kReduce, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> reduce_rows() { return kRows; }

}  // namespace firstlight::catalog
