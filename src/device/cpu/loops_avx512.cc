// SPDX-License-Identifier: Apache-2.0
// The build sets the instruction set for this file alone.
#include <immintrin.h>

#include "device/cpu/loops.h"

namespace firstlight::device {
namespace {

constexpr int kChains = 20;  // independent, so that latency hides

float sum_of(const __m512* sums) {
  __m512 total = sums[0];
  for (int k = 1; k < kChains; ++k) total = _mm512_add_ps(total, sums[k]);
  return _mm512_reduce_add_ps(total);
}

float f32_loop(int64_t rounds) {
  __m512 sums[kChains];
  for (auto& s : sums) s = _mm512_set1_ps(0.5f);
  const __m512 a = _mm512_set1_ps(0.999f);
  const __m512 b = _mm512_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 20
    for (auto& s : sums) s = _mm512_fmadd_ps(s, a, b);
  }
  return sum_of(sums);
}

float bf16_loop(int64_t rounds) {
  __m512 sums[kChains];
  for (auto& s : sums) s = _mm512_set1_ps(0.5f);
  const __m512i ones = _mm512_set1_epi16(0x3f80);  // 1 as bfloat16
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 20
    for (auto& s : sums) s = _mm512_dpbf16_ps(s, reinterpret_cast<__m512bh>(ones), reinterpret_cast<__m512bh>(ones));
  }
  return sum_of(sums);
}

float int8_loop(int64_t rounds) {
  __m512i sums[kChains];
  for (auto& s : sums) s = _mm512_setzero_si512();
  const __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(2);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 20
    for (auto& s : sums) s = _mm512_dpbusd_epi32(s, a, b);
  }
  __m512i total = sums[0];
#pragma GCC unroll 20  // else the sums have to be an array in memory, written each round: half of the roof
  for (int k = 1; k < kChains; ++k) total = _mm512_add_epi32(total, sums[k]);
  return static_cast<float>(_mm512_reduce_add_epi32(total));
}

}  // namespace

const MeasuringLoops& loops_avx512() {
  static constexpr MeasuringLoops kLoops{.f32 = f32_loop,
                                         .f32_operations = kChains * 16 * 2,
                                         .bf16 = bf16_loop,
                                         .bf16_operations = kChains * 32 * 2,
                                         .int8 = int8_loop,
                                         .int8_operations = kChains * 64 * 2};
  return kLoops;
}

}  // namespace firstlight::device
