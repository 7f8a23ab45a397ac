// SPDX-License-Identifier: Apache-2.0
// Whole-row functions of norms and softmax, one table per instruction set. Any row length; `out` may be `x`.
#pragma once

#include <cstdint>

namespace firstlight::kernels {

struct RowOps {
  // x / sqrt(mean(x^2) + eps) * (weight + offset); null weight: no last factor. Sum of squares in float64.
  void (*rms_norm)(const float* x, int64_t n, const float* weight, double eps, double offset, float* out);
  // (x - mean) / sqrt(variance + eps) * weight + bias; null: left out. Both sums in float64.
  void (*layer_norm)(const float* x, int64_t n, const float* weight, const float* bias, double eps, float* out);
  // exp(x - max) / sum; float32 with the sum gathered in float64 every 256 elements.
  void (*softmax)(const float* x, int64_t n, float* out);
};

const RowOps& row_ops_avx2();
const RowOps& row_ops_avx512();

}  // namespace firstlight::kernels
