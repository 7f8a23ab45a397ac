// SPDX-License-Identifier: Apache-2.0
// The kernels of rms_norm.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"rms_norm_any_f32_ref", ops::OpKind::kRmsNorm, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"rms_norm_any_f32_ref", ops::OpKind::kRmsNorm, Backend::kCpu, {}, accepts_row_major, -1},
    {"rms_norm_f32_f32_avx2", ops::OpKind::kRmsNorm, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
    {"rms_norm_f32_f32_avx512", ops::OpKind::kRmsNorm, Backend::kCpu, kNeedsAvx512, accepts_f32_rows, 2},
};

}  // namespace

std::span<const KernelRow> rms_norm_rows() { return kRows; }

}  // namespace firstlight::catalog
