// SPDX-License-Identifier: Apache-2.0
// The vector vocabulary of the CPU kernels, AVX2 form: 8 lanes of 32 bits, the same words as simd_avx512.h (which
// describes them). Local to the including file.
// NOLINTBEGIN
#pragma once

namespace firstlight::kernels {
namespace {

using Float = __m256;
using Int = __m256i;
using Mask = __m256;  // all ones or all zeros per lane
constexpr int kLanes = 8;
constexpr bool kSignedByteDot = true;  // dot_bytes of 8-bit codes wants them signed (sign trick), see there

#define FL_INLINE inline __attribute__((always_inline))

FL_INLINE Float zero_f() { return _mm256_setzero_ps(); }
FL_INLINE Float set_f(float value) { return _mm256_set1_ps(value); }
FL_INLINE Float load_f(const float* from) { return _mm256_loadu_ps(from); }
FL_INLINE void store_f(float* to, Float v) { _mm256_storeu_ps(to, v); }
FL_INLINE Float add_f(Float a, Float b) { return _mm256_add_ps(a, b); }
FL_INLINE Float sub_f(Float a, Float b) { return _mm256_sub_ps(a, b); }
FL_INLINE Float mul_f(Float a, Float b) { return _mm256_mul_ps(a, b); }
FL_INLINE Float div_f(Float a, Float b) { return _mm256_div_ps(a, b); }
FL_INLINE Float sqrt_f(Float a) { return _mm256_sqrt_ps(a); }
FL_INLINE Float fma_f(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
FL_INLINE Float fnma_f(Float a, Float b, Float c) { return _mm256_fnmadd_ps(a, b, c); }
FL_INLINE Float min_f(Float a, Float b) { return _mm256_min_ps(a, b); }
FL_INLINE Float max_f(Float a, Float b) { return _mm256_max_ps(a, b); }
FL_INLINE Float round_f(Float a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
FL_INLINE Float floor_f(Float a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }

FL_INLINE Mask less_f(Float a, Float b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
FL_INLINE Mask less_equal_f(Float a, Float b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
FL_INLINE Mask equal_f(Float a, Float b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
FL_INLINE Mask is_nan_f(Float a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
FL_INLINE Float select_f(Mask m, Float yes, Float no) { return _mm256_blendv_ps(no, yes, m); }

FL_INLINE Int bits_f(Float a) { return _mm256_castps_si256(a); }
FL_INLINE Float from_bits(Int a) { return _mm256_castsi256_ps(a); }
FL_INLINE Int zero_i() { return _mm256_setzero_si256(); }
FL_INLINE Int set_i(int32_t value) { return _mm256_set1_epi32(value); }
FL_INLINE Int load_i(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
FL_INLINE void store_i(void* to, Int v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
FL_INLINE Int add_i(Int a, Int b) { return _mm256_add_epi32(a, b); }
FL_INLINE Int sub_i(Int a, Int b) { return _mm256_sub_epi32(a, b); }
FL_INLINE Int max_i(Int a, Int b) { return _mm256_max_epi32(a, b); }
FL_INLINE Int and_i(Int a, Int b) { return _mm256_and_si256(a, b); }
FL_INLINE Int or_i(Int a, Int b) { return _mm256_or_si256(a, b); }
FL_INLINE Int xor_i(Int a, Int b) { return _mm256_xor_si256(a, b); }
FL_INLINE Int shift_left(Int a, int bits) { return _mm256_slli_epi32(a, bits); }
FL_INLINE Int shift_right(Int a, int bits) { return _mm256_srli_epi32(a, bits); }
FL_INLINE Float float_of(Int a) { return _mm256_cvtepi32_ps(a); }
FL_INLINE Int int_of(Float a) { return _mm256_cvtps_epi32(a); }

FL_INLINE Float load_f16(const void* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
FL_INLINE Int load_u8_as_i32(const void* from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from)));
}
FL_INLINE Int load_i8_as_i32(const void* from) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from)));
}
FL_INLINE void store_low_bytes(void* to, Int v) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(static_cast<__m128i*>(to), _mm_packs_epi16(words, words));
}
FL_INLINE float sum_of(Float v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
FL_INLINE int32_t sum_of(Int v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
FL_INLINE int32_t max_of(Int v) {
  __m128i s = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
FL_INLINE double sum_squares(const float* from, int64_t count) {
  __m256d low = _mm256_setzero_pd();
  __m256d high = low;
  for (int64_t k = 0; k < count; k += 8) {
    const __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(from + k));
    const __m256d b = _mm256_cvtps_pd(_mm_loadu_ps(from + k + 4));
    low = _mm256_fmadd_pd(a, a, low);
    high = _mm256_fmadd_pd(b, b, high);
  }
  const __m256d sum = _mm256_add_pd(low, high);
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

FL_INLINE Int lookup_bytes(__m128i table, Int codes) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), codes);
}

// vpmaddubsw saturates at 16 bits. Codes up to 63 can not reach that, and several products fit before they are widened;
// 8-bit codes come signed (kSignedByteDot): |a| <= 128 times a sign-adjusted b stays at or below 2 * 128 * 127 = 32512.
template <int kMax, int kCount>
FL_INLINE Int dot_bytes(Int sum, const Int* a, const Int* b) {
  const Int ones = _mm256_set1_epi16(1);
  if constexpr (kMax > 63) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const Int words = _mm256_maddubs_epi16(_mm256_abs_epi8(a[i]), _mm256_sign_epi8(b[i], a[i]));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, ones));
    }
  } else {
    static_assert(kCount % 4 == 0);
    constexpr bool kFourFit = 4 * 2 * kMax * 127 <= 32767;
    static_assert(2 * 2 * kMax * 127 <= 32767);
#pragma GCC unroll 2
    for (int i = 0; i < kCount; i += 4) {
      const Int first = _mm256_add_epi16(_mm256_maddubs_epi16(a[i], b[i]), _mm256_maddubs_epi16(a[i + 1], b[i + 1]));
      const Int last =
          _mm256_add_epi16(_mm256_maddubs_epi16(a[i + 2], b[i + 2]), _mm256_maddubs_epi16(a[i + 3], b[i + 3]));
      if constexpr (kFourFit) {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(first, last), ones));
      } else {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(first, ones));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(last, ones));
      }
    }
  }
  return sum;
}

FL_INLINE Float dot_bf16(Float sum, Int a, Int b) {
  const Int high = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
  sum = _mm256_fmadd_ps(from_bits(_mm256_slli_epi32(a, 16)), from_bits(_mm256_slli_epi32(b, 16)), sum);
  return _mm256_fmadd_ps(from_bits(and_i(a, high)), from_bits(and_i(b, high)), sum);
}
// To nearest, ties to even; a NaN keeps its upper bits and turns quiet.
FL_INLINE Int round_to_bf16(Float v) {
  const Int bits = bits_f(v);
  const Int odd = and_i(shift_right(bits, 16), set_i(1));
  const Int rounded = add_i(bits, add_i(odd, set_i(0x7fff)));
  const Int quiet = or_i(bits, set_i(0x00400000));
  return bits_f(select_f(is_nan_f(v), from_bits(quiet), from_bits(rounded)));
}
FL_INLINE Int pack_bf16(Float even, Float odd) {
  return or_i(shift_right(round_to_bf16(even), 16),
              and_i(round_to_bf16(odd), set_i(static_cast<int32_t>(0xffff0000u))));
}

// In two steps, so that results in the subnormal range and n down to -252 come out right.
FL_INLINE Float scale_by_power(Float a, Float n) {
  const Int whole = int_of(max_f(min_f(n, set_f(252)), set_f(-252)));
  const Int half = _mm256_srai_epi32(whole, 1);
  const Float first = from_bits(shift_left(add_i(half, set_i(127)), 23));
  const Float second = from_bits(shift_left(add_i(sub_i(whole, half), set_i(127)), 23));
  return mul_f(mul_f(a, first), second);
}

}  // namespace
}  // namespace firstlight::kernels
// NOLINTEND
