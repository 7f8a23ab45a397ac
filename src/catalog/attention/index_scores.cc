// SPDX-License-Identifier: Apache-2.0
// Kernels of index_scores.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"index_scores_f32_i32_ref", ops::OpKind::kIndexScores, Backend::kReference, {}, accepts_row_major},
    // What no fast form takes.
    {"index_scores_f32_i32_ref", ops::OpKind::kIndexScores, Backend::kCpu, {}, accepts_row_major, -1},
    {"index_scores_f32_i32_avx2", ops::OpKind::kIndexScores, Backend::kCpu, kNeedsAvx2, accepts_f32_rows, 1},
    {"index_scores_f32_i32_avx512", ops::OpKind::kIndexScores, Backend::kCpu, kNeedsAvx512, accepts_f32_rows, 2},
};

}  // namespace

std::span<const KernelRow> index_scores_rows() { return kRows; }

}  // namespace firstlight::catalog
