// SPDX-License-Identifier: Apache-2.0
// A row of floats rounded into the type a state stores, eight elements at a time, in AVX2 (which is the build's own
// floor).
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/append/store_block.h"
#include "tensor/codec.h"

namespace firstlight::kernels {

inline void store_f16(const float* from, int64_t count, std::byte* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i), halves);
  }
  for (; i < count; ++i) {
    const uint16_t bits = tensor::f32_to_f16(from[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

inline void store_bf16(const float* from, int64_t count, std::byte* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 v = _mm256_loadu_ps(from + i);
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256i chosen =
        _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan));
    const __m256i high = _mm256_srli_epi32(chosen, 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i), packed);
  }
  for (; i < count; ++i) {
    const uint16_t bits = tensor::f32_to_bf16(from[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

inline void store_row(tensor::DType dtype, const float* from, int64_t count, std::byte* to) {
  if (dtype == tensor::DType::kF16) return store_f16(from, count, to);
  if (dtype == tensor::DType::kBF16) return store_bf16(from, count, to);
  if (dtype == tensor::DType::kQ8_0) return store_blocks<store_q8_0>(from, count, 34, to);
  if (dtype == tensor::DType::kMXFP8) return store_blocks<store_mxfp8>(from, count, 33, to);
  if (dtype == tensor::DType::kQ4_1) return store_blocks<store_q4_1>(from, count, 20, to);
  if (dtype == tensor::DType::kQ4_1S) return store_blocks<store_q4_1s>(from, count, 24, to);
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace firstlight::kernels
