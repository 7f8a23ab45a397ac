// SPDX-License-Identifier: Apache-2.0
// The reference kernels of the matrix products.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"linear_any_f32_ref", ops::OpKind::kLinear, Backend::kReference, {}, accepts_row_major},
    {"batched_linear_any_f32_ref", ops::OpKind::kBatchedLinear, Backend::kReference, {}, accepts_row_major},
    {"fused_linear_any_f32_ref", ops::OpKind::kFusedLinear, Backend::kReference, {}, accepts_row_major},
    {"route_any_f32_ref", ops::OpKind::kRoute, Backend::kReference, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> linear_reference_rows() { return kRows; }

}  // namespace firstlight::catalog
