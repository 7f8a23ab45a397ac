// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "roof.h"

namespace firstlight::bench::detail {

double spin_avx512(Unit unit, int64_t rounds) {
  constexpr int kChains = 24;
  __m512i sum[kChains];
#pragma GCC unroll 24
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi32(static_cast<int>(rounds));
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) {
      switch (unit) {
        case Unit::kFloat32:
          sum[i] = _mm512_castps_si512(
              _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(a), _mm512_castsi512_ps(sum[i])));
          break;
        case Unit::kBf16:
          sum[i] = _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum[i]), reinterpret_cast<__m512bh>(a),
                                                        reinterpret_cast<__m512bh>(a)));
          break;
        case Unit::kInt8:
          sum[i] = _mm512_dpbusd_epi32(sum[i], a, a);
          break;
      }
    }
    asm volatile("" : "+v"(sum[0]), "+v"(sum[1]));
  }
  __m512i total = sum[0];
#pragma GCC unroll 24
  for (int i = 1; i < kChains; ++i) total = _mm512_xor_si512(total, sum[i]);
  asm volatile("" : : "v"(total));
  const int per_lane = unit == Unit::kFloat32 ? 2 : (unit == Unit::kBf16 ? 4 : 8);
  return static_cast<double>(rounds) * kChains * 16 * per_lane;
}

}  // namespace firstlight::bench::detail
