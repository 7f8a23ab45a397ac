// SPDX-License-Identifier: Apache-2.0
// The kernels of recur_gla.
#include <algorithm>

#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

// The fast forms take a constant decay and a bonus that are decoded already, as the compiler leaves them.
bool accepts_f32_operands(const Signature& signature) {
  return accepts_row_major(signature) &&
         std::all_of(signature.operands.begin(), signature.operands.end(),
                     [](const tensor::Type& type) { return type.is_state() || type.dtype == tensor::DType::kF32; });
}

constexpr KernelRow kRows[] = {
    {"recur_gla_f32_f32_ref", ops::OpKind::kRecurGla, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"recur_gla_f32_f32_ref", ops::OpKind::kRecurGla, Backend::kCpu, {}, accepts_row_major, -1},
    {"recur_gla_f32_f32_avx2", ops::OpKind::kRecurGla, Backend::kCpu, kNeedsAvx2, accepts_f32_operands, 1},
    {"recur_gla_f32_f32_avx512", ops::OpKind::kRecurGla, Backend::kCpu, kNeedsAvx512, accepts_f32_operands, 2},
};

}  // namespace

std::span<const KernelRow> recur_gla_rows() { return kRows; }

}  // namespace firstlight::catalog
