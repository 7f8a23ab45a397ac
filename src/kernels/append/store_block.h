// SPDX-License-Identifier: Apache-2.0
// 32 floats into a block of a cache's row (tensor/state_rows.h says which bytes), in AVX2. The same bytes as the plain
// form: every step is a comparison, or an operation that IEEE 754 rounds.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "tensor/codec.h"
#include "tensor/state_rows.h"

namespace firstlight::kernels {

inline constexpr uint16_t kHalfNaN = 0x7e00;

struct FloatBlock {
  __m256 part[4];
};

inline FloatBlock load_block(const float* from) {
  return {{_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8), _mm256_loadu_ps(from + 16), _mm256_loadu_ps(from + 24)}};
}

inline __m256 size_of(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }

inline float highest_of(__m256 v) {
  __m128 most = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  most = _mm_max_ps(most, _mm_movehl_ps(most, most));
  return _mm_cvtss_f32(_mm_max_ss(most, _mm_shuffle_ps(most, most, 1)));
}
inline float lowest_of(__m256 v) {
  __m128 least = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  least = _mm_min_ps(least, _mm_movehl_ps(least, least));
  return _mm_cvtss_f32(_mm_min_ss(least, _mm_shuffle_ps(least, least, 1)));
}

inline bool is_finite(__m256 a, __m256 b) {
  const __m256 infinity = _mm256_set1_ps(__builtin_inff());
  const __m256 good =
      _mm256_and_ps(_mm256_cmp_ps(size_of(a), infinity, _CMP_LT_OQ), _mm256_cmp_ps(size_of(b), infinity, _CMP_LT_OQ));
  return _mm256_movemask_ps(good) == 0xff;
}

inline bool is_finite_half(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

inline float largest_of(const FloatBlock& x) {
  return highest_of(_mm256_max_ps(_mm256_max_ps(size_of(x.part[0]), size_of(x.part[1])),
                                  _mm256_max_ps(size_of(x.part[2]), size_of(x.part[3]))));
}

// The low bytes of 32 whole numbers within -128 to 127.
inline void store_bytes(const __m256i* codes, std::byte* to) {
  const __m256i words[2] = {_mm256_packs_epi32(codes[0], codes[1]), _mm256_packs_epi32(codes[2], codes[3])};
  const __m256i bytes = _mm256_packs_epi16(words[0], words[1]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(bytes, order));
}

inline void store_q8_0(const FloatBlock& x, std::byte* to) {
  uint16_t half = tensor::f32_to_f16(largest_of(x) / 127.0f);
  if (!is_finite(x.part[0], x.part[1]) || !is_finite(x.part[2], x.part[3]) || !is_finite_half(half)) half = kHalfNaN;
  std::memcpy(to, &half, 2);
  __m256i codes[4] = {};
  if (half != kHalfNaN && half != 0) {
    const __m256 d = _mm256_set1_ps(tensor::f16_to_f32(half));
    const __m256i most = _mm256_set1_epi32(127);
    for (int i = 0; i < 4; ++i) {
      const __m256i code = _mm256_cvtps_epi32(_mm256_div_ps(x.part[i], d));
      codes[i] = _mm256_max_epi32(_mm256_min_epi32(code, most), _mm256_set1_epi32(-127));
    }
  }
  store_bytes(codes, to + 2);
}

// Sizes of at most 448, and signs, as E4M3 in the low bytes (0 to 255).
inline __m256i e4m3_codes(__m256 v) {
  const __m256 size = size_of(v);
  const __m256i bits = _mm256_castps_si256(size);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff))), 20);
  const __m256i usual = _mm256_sub_epi32(rounded, _mm256_set1_epi32(120 << 3));
  const __m256i small = _mm256_cvtps_epi32(_mm256_mul_ps(size, _mm256_set1_ps(0x1p9f)));
  const __m256 is_small = _mm256_cmp_ps(size, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ);
  const __m256i code = _mm256_blendv_epi8(usual, small, _mm256_castps_si256(is_small));
  const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(_mm256_castps_si256(v), 31), 7);
  return _mm256_or_si256(code, sign);
}

inline void store_mxfp8(const FloatBlock& x, std::byte* to) {
  const float most = largest_of(x);
  uint32_t bits = 0;
  std::memcpy(&bits, &most, 4);
  const int exponent = static_cast<int>(bits >> 23) - 8 + ((bits & 0x7fffff) > 0x600000 ? 1 : 0);
  const bool good = is_finite(x.part[0], x.part[1]) && is_finite(x.part[2], x.part[3]);
  if (!good || exponent > tensor::kMXFP8Scales) {
    std::memset(to, 0, 33);
    *to = std::byte{0xff};
    return;
  }
  const int scale = exponent > 1 ? exponent : 1;
  *to = static_cast<std::byte>(scale);
  const __m256 inverse = _mm256_castsi256_ps(_mm256_set1_epi32((254 - scale) << 23));
  __m256i codes[4];
  for (int i = 0; i < 4; ++i) {  // as signed bytes, for store_bytes
    const __m256i code = e4m3_codes(_mm256_mul_ps(x.part[i], inverse));
    codes[i] = _mm256_srai_epi32(_mm256_slli_epi32(code, 24), 24);
  }
  store_bytes(codes, to + 1);
}

// d and m of kParts vectors to `scales`, their codes (whole numbers of 0 to 15) to `codes`.
template <int kParts>
inline void encode_nibbles(const __m256* x, std::byte* scales, __m256i* codes) {
  __m256 least = x[0], most = x[0];
  bool good = true;
  for (int i = 0; i < kParts; i += 2) {
    least = _mm256_min_ps(least, _mm256_min_ps(x[i], x[i + 1]));
    most = _mm256_max_ps(most, _mm256_max_ps(x[i], x[i + 1]));
    good = good && is_finite(x[i], x[i + 1]);
  }
  uint16_t low = tensor::f32_to_f16(lowest_of(least) + 0.0f);
  const float m = tensor::f16_to_f32(low);
  const float spread = highest_of(most) - m;
  uint16_t step = tensor::f32_to_f16((spread > 0 ? spread : 0.0f) / 15.0f);
  if (!good || !is_finite_half(low) || !is_finite_half(step)) {
    step = kHalfNaN;
    low = 0;
  }
  std::memcpy(scales, &step, 2);
  std::memcpy(scales + 2, &low, 2);
  for (int i = 0; i < kParts; ++i) codes[i] = _mm256_setzero_si256();
  if (step == kHalfNaN || step == 0) return;
  const __m256 d = _mm256_set1_ps(tensor::f16_to_f32(step));
  for (int i = 0; i < kParts; ++i) {
    const __m256i code = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_sub_ps(x[i], _mm256_set1_ps(m)), d));
    codes[i] = _mm256_min_epi32(_mm256_max_epi32(code, _mm256_setzero_si256()), _mm256_set1_epi32(15));
  }
}

// Codes of elements 0 to 15 in the low nibbles, of 16 to 31 in the high ones.
inline void store_nibbles(const __m256i* codes, std::byte* to) {
  const __m256i pairs[2] = {_mm256_or_si256(codes[0], _mm256_slli_epi32(codes[2], 4)),
                            _mm256_or_si256(codes[1], _mm256_slli_epi32(codes[3], 4))};
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(pairs[0], pairs[1]), 0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

inline void store_q4_1(const FloatBlock& x, std::byte* to) {
  __m256i codes[4];
  encode_nibbles<4>(x.part, to, codes);
  store_nibbles(codes, to + 4);
}

inline void store_q4_1s(const FloatBlock& x, std::byte* to) {
  __m256i codes[4];
  encode_nibbles<2>(x.part, to, codes);
  encode_nibbles<2>(x.part + 2, to + 4, codes + 2);
  store_nibbles(codes, to + 8);
}

// A row; a last block that it does not fill repeats its last element.
template <void (*kStore)(const FloatBlock&, std::byte*)>
void store_blocks(const float* from, int64_t count, int64_t block_bytes, std::byte* to) {
  int64_t i = 0;
  for (; i + 32 <= count; i += 32, to += block_bytes) kStore(load_block(from + i), to);
  if (i == count) return;
  float rest[32];
  for (int64_t j = 0; j < 32; ++j) rest[j] = from[i + j < count ? i + j : count - 1];
  kStore(load_block(rest), to);
}

}  // namespace firstlight::kernels
