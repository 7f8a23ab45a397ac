// SPDX-License-Identifier: Apache-2.0
// The kernels of conv1d.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr int64_t kMostTaps = 16;  // that the fast forms have room for

bool accepts_few_taps(const Signature& signature) {
  return accepts_f32_rows(signature) && signature.operands[1].shape[1].factor <= kMostTaps;
}

constexpr KernelRow kRows[] = {
    {"conv1d_f32_f32_ref", ops::OpKind::kConv1d, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"conv1d_f32_f32_ref", ops::OpKind::kConv1d, Backend::kCpu, {}, accepts_row_major, -1},
    {"conv1d_f32_f32_avx2", ops::OpKind::kConv1d, Backend::kCpu, kNeedsAvx2, accepts_few_taps, 1},
    {"conv1d_f32_f32_avx512", ops::OpKind::kConv1d, Backend::kCpu, kNeedsAvx512, accepts_few_taps, 2},
};

}  // namespace

std::span<const KernelRow> conv1d_rows() { return kRows; }

}  // namespace firstlight::catalog
