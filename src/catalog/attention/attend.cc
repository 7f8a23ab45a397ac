// SPDX-License-Identifier: Apache-2.0
// The kernels of attend and attend_segments.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

bool accepts_rounded(const Signature& signature) {
  return signature.mode == ComputeMode::kBf16 && accepts_f32_rows(signature);
}

constexpr KernelRow kRows[] = {
    {"attend_any_f32_ref", ops::OpKind::kAttend, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"attend_any_f32_ref", ops::OpKind::kAttend, Backend::kCpu, {}, accepts_row_major, -1},
    {"attend_f32_f32_avx2", ops::OpKind::kAttend, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
    {"attend_f32_f32_avx512", ops::OpKind::kAttend, Backend::kCpu, kNeedsAvx512, accepts_f32_rows, 2},
    {"attend_bf16_f32_avx512", ops::OpKind::kAttend, Backend::kCpu, kNeedsAvx512, accepts_rounded, 3},
    {"attend_segments_any_f32_ref", ops::OpKind::kAttendSegments, Backend::kReference, {}, accepts_row_major},
    {"attend_segments_any_f32_ref", ops::OpKind::kAttendSegments, Backend::kCpu, {}, accepts_row_major, -1},
    {"attend_segments_f32_f32_avx2", ops::OpKind::kAttendSegments, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
    {"attend_segments_f32_f32_avx512", ops::OpKind::kAttendSegments, Backend::kCpu, kNeedsAvx512, accepts_f32_rows, 2},
    {"attend_segments_bf16_f32_avx512", ops::OpKind::kAttendSegments, Backend::kCpu, kNeedsAvx512, accepts_rounded, 3},
};

}  // namespace

std::span<const KernelRow> attend_rows() { return kRows; }

}  // namespace firstlight::catalog
