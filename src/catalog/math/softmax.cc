// SPDX-License-Identifier: Apache-2.0
// The kernels of softmax.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"softmax_any_f32_ref", ops::OpKind::kSoftmax, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"softmax_any_f32_ref", ops::OpKind::kSoftmax, Backend::kCpu, {}, accepts_row_major, -1},
    {"softmax_f32_f32_avx2", ops::OpKind::kSoftmax, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
    {"softmax_f32_f32_avx512", ops::OpKind::kSoftmax, Backend::kCpu, kNeedsAvx512, accepts_f32_rows, 2},
};

}  // namespace

std::span<const KernelRow> softmax_rows() { return kRows; }

}  // namespace firstlight::catalog
