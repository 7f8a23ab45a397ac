// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "device/cpu/loops.h"

namespace firstlight::device {
namespace {

constexpr int kChains = 10;  // independent, so that latency hides

float f32_loop(int64_t rounds) {
  __m256 sums[kChains];
  for (auto& s : sums) s = _mm256_set1_ps(0.5f);
  const __m256 a = _mm256_set1_ps(0.999f);
  const __m256 b = _mm256_set1_ps(0.001f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (auto& s : sums) s = _mm256_fmadd_ps(s, a, b);
  }
  __m256 total = sums[0];
#pragma GCC unroll 10
  for (int k = 1; k < kChains; ++k) total = _mm256_add_ps(total, sums[k]);
  return _mm256_cvtss_f32(total);
}

float int8_loop(int64_t rounds) {
  __m256i sums[kChains];
  for (auto& s : sums) s = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(2);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (auto& s : sums) s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    __asm__ volatile("" : "+x"(a));  // the products are the same each round; the compiler may not know
  }
  __m256i total = sums[0];
#pragma GCC unroll 10  // else the sums have to be an array in memory, written each round
  for (int k = 1; k < kChains; ++k) total = _mm256_add_epi32(total, sums[k]);
  return static_cast<float>(_mm256_extract_epi32(total, 0));
}

}  // namespace

const MeasuringLoops& loops_avx2() {
  static constexpr MeasuringLoops kLoops{.f32 = f32_loop,
                                         .f32_operations = kChains * 8 * 2,
                                         .bf16 = f32_loop,
                                         .bf16_operations = kChains * 8 * 2,
                                         .int8 = int8_loop,
                                         .int8_operations = kChains * 32 * 2};
  return kLoops;
}

int64_t read_through(const std::byte* data, size_t bytes) {
  __m256i sums[8];
  for (auto& s : sums) s = _mm256_setzero_si256();
  for (size_t at = 0; at + 512 <= bytes; at += 512) {
#pragma GCC unroll 16
    for (size_t k = 0; k < 16; ++k) {
      const auto* from = reinterpret_cast<const __m256i*>(data + at + 32 * k);
      sums[k % 8] = _mm256_xor_si256(sums[k % 8], _mm256_loadu_si256(from));
    }
  }
  __m256i total = sums[0];
#pragma GCC unroll 8
  for (int k = 1; k < 8; ++k) total = _mm256_xor_si256(total, sums[k]);
  return _mm256_extract_epi64(total, 0);
}

}  // namespace firstlight::device
