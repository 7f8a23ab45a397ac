// SPDX-License-Identifier: Apache-2.0
// The kernels of recent_tokens.
#include "catalog/tables.h"

namespace firstlight::catalog {
namespace {

constexpr KernelRow kRows[] = {
    {"recent_tokens_i32_i32_ref", ops::OpKind::kRecentTokens, Backend::kReference, {}, accepts_row_major},
    {"recent_tokens_i32_i32_cpu", ops::OpKind::kRecentTokens, Backend::kCpu, {}, accepts_row_major},
};

}  // namespace

std::span<const KernelRow> recent_tokens_rows() { return kRows; }

}  // namespace firstlight::catalog
