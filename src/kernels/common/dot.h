// SPDX-License-Identifier: Apache-2.0
// The reference inner product: float32 operands, exact products, float64 sums in a fixed order.
#pragma once

#include <cstdint>

namespace firstlight::kernels {

// Sum over k < count of a[k] * b[k]. Sixteen partial sums, element k in sum k % 16, then added up pairwise; the order
// depends on nothing but `count`.
inline double dot_f64(const float* a, const float* b, int64_t count) {
  using Four [[gnu::vector_size(32)]] = double;
  using FourFloats [[gnu::vector_size(16), gnu::aligned(4), gnu::may_alias]] = float;
  Four sums[4] = {};
  int64_t k = 0;
  for (; k + 16 <= count; k += 16) {
    for (int j = 0; j < 4; ++j) {
      const auto x = __builtin_convertvector(*reinterpret_cast<const FourFloats*>(a + k + 4 * j), Four);
      const auto y = __builtin_convertvector(*reinterpret_cast<const FourFloats*>(b + k + 4 * j), Four);
      sums[j] += x * y;
    }
  }
  double tail = 0;
  for (; k < count; ++k) tail += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  const Four sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + tail;
}

}  // namespace firstlight::kernels
