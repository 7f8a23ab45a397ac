// SPDX-License-Identifier: Apache-2.0
// The kernels of top_k.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"top_k_f32_f32_ref", ops::OpKind::kTopK, Backend::kReference, {}, accepts_row_major},
    // A few elements per token.
    {"top_k_f32_f32_ref", ops::OpKind::kTopK, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> top_k_rows() { return kRows; }

}  // namespace firstlight::catalog
