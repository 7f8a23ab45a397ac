// SPDX-License-Identifier: Apache-2.0
// The vector vocabulary of the CPU kernels, AVX-512 form: 16 lanes of 32 bits. Kernel text is written once in these
// words and compiled once per instruction set: a form_<isa>.cc sets the target, includes its vocabulary, then the
// kernel text. Everything here is local to the including file; include nothing but <immintrin.h> and <cstdint> before.
// NOLINTBEGIN: no include guard semantics beyond this file, see above.
#pragma once

namespace firstlight::kernels {
namespace {

using Float = __m512;
using Int = __m512i;
using Mask = __mmask16;
constexpr int kLanes = 16;
constexpr bool kSignedByteDot = false;  // dot_bytes takes all 8 bits of an unsigned operand without saturating

#define FL_INLINE inline __attribute__((always_inline))

FL_INLINE Float zero_f() { return _mm512_setzero_ps(); }
FL_INLINE Float set_f(float value) { return _mm512_set1_ps(value); }
FL_INLINE Float load_f(const float* from) { return _mm512_loadu_ps(from); }
FL_INLINE void store_f(float* to, Float v) { _mm512_storeu_ps(to, v); }
FL_INLINE Float add_f(Float a, Float b) { return _mm512_add_ps(a, b); }
FL_INLINE Float sub_f(Float a, Float b) { return _mm512_sub_ps(a, b); }
FL_INLINE Float mul_f(Float a, Float b) { return _mm512_mul_ps(a, b); }
FL_INLINE Float div_f(Float a, Float b) { return _mm512_div_ps(a, b); }
FL_INLINE Float sqrt_f(Float a) { return _mm512_sqrt_ps(a); }
FL_INLINE Float fma_f(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
FL_INLINE Float fnma_f(Float a, Float b, Float c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a*b
FL_INLINE Float min_f(Float a, Float b) { return _mm512_min_ps(a, b); }
FL_INLINE Float max_f(Float a, Float b) { return _mm512_max_ps(a, b); }
FL_INLINE Float round_f(Float a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
FL_INLINE Float floor_f(Float a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }

FL_INLINE Mask less_f(Float a, Float b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
FL_INLINE Mask less_equal_f(Float a, Float b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
FL_INLINE Mask equal_f(Float a, Float b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
FL_INLINE Mask is_nan_f(Float a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
FL_INLINE Float select_f(Mask m, Float yes, Float no) { return _mm512_mask_blend_ps(m, no, yes); }

FL_INLINE Int bits_f(Float a) { return _mm512_castps_si512(a); }
FL_INLINE Float from_bits(Int a) { return _mm512_castsi512_ps(a); }
FL_INLINE Int zero_i() { return _mm512_setzero_si512(); }
FL_INLINE Int set_i(int32_t value) { return _mm512_set1_epi32(value); }
FL_INLINE Int load_i(const void* from) { return _mm512_loadu_si512(from); }
FL_INLINE void store_i(void* to, Int v) { _mm512_storeu_si512(to, v); }
FL_INLINE Int add_i(Int a, Int b) { return _mm512_add_epi32(a, b); }
FL_INLINE Int sub_i(Int a, Int b) { return _mm512_sub_epi32(a, b); }
FL_INLINE Int max_i(Int a, Int b) { return _mm512_max_epi32(a, b); }
FL_INLINE Int and_i(Int a, Int b) { return _mm512_and_si512(a, b); }
FL_INLINE Int or_i(Int a, Int b) { return _mm512_or_si512(a, b); }
FL_INLINE Int xor_i(Int a, Int b) { return _mm512_xor_si512(a, b); }
FL_INLINE Int shift_left(Int a, int bits) { return _mm512_slli_epi32(a, static_cast<unsigned>(bits)); }
FL_INLINE Int shift_right(Int a, int bits) { return _mm512_srli_epi32(a, static_cast<unsigned>(bits)); }
FL_INLINE Float float_of(Int a) { return _mm512_cvtepi32_ps(a); }
FL_INLINE Int int_of(Float a) { return _mm512_cvtps_epi32(a); }  // to nearest, ties to even

FL_INLINE Float load_f16(const void* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}
FL_INLINE Int load_u8_as_i32(const void* from) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
FL_INLINE Int load_i8_as_i32(const void* from) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
// The low bytes of the 16 lanes (values in int8).
FL_INLINE void store_low_bytes(void* to, Int v) {
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm512_cvtepi32_epi8(v));
}
FL_INLINE float sum_of(Float v) { return _mm512_reduce_add_ps(v); }
FL_INLINE int32_t sum_of(Int v) { return _mm512_reduce_add_epi32(v); }
FL_INLINE int32_t max_of(Int v) { return _mm512_reduce_max_epi32(v); }
FL_INLINE __m512d add_squares(__m512d sum, const float* from) {
  const __m512d wide = _mm512_cvtps_pd(_mm256_loadu_ps(from));
  return _mm512_fmadd_pd(wide, wide, sum);
}
FL_INLINE double sum_squares(const float* from, int64_t count) {  // of a multiple of kLanes, in float64
  __m512d a = _mm512_setzero_pd();
  __m512d b = a;
  __m512d c = a;
  __m512d d = a;
  int64_t k = 0;
  for (; k + 32 <= count; k += 32) {
    a = add_squares(a, from + k);
    b = add_squares(b, from + k + 8);
    c = add_squares(c, from + k + 16);
    d = add_squares(d, from + k + 24);
  }
  if (k < count) {
    a = add_squares(a, from + k);
    b = add_squares(b, from + k + 8);
  }
  return _mm512_reduce_add_pd(_mm512_add_pd(_mm512_add_pd(a, b), _mm512_add_pd(c, d)));
}

// Looks 4-bit codes (a byte each) up in a table of 16 bytes.
FL_INLINE Int lookup_bytes(__m128i table, Int codes) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), codes);
}

// Per 32-bit lane: the sum of four products unsigned byte of `a` times signed byte of `b`. `kMax`: largest value in
// `a`.
template <int kMax, int kCount>
FL_INLINE Int dot_bytes(Int sum, const Int* a, const Int* b) {
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) sum = _mm512_dpbusd_epi32(sum, a[i], b[i]);
  return sum;
}

// Pairs of bfloat16 in a lane: sum + a.low * b.low + a.high * b.high.
FL_INLINE Float dot_bf16(Float sum, Int a, Int b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
// Two float vectors rounded to bfloat16, `even` in the low halves of the lanes.
FL_INLINE Int pack_bf16(Float even, Float odd) {
  alignas(64) static constexpr uint16_t kInterleave[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const Int halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
  return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), halves);
}

FL_INLINE Float scale_by_power(Float a, Float n) { return _mm512_scalef_ps(a, n); }  // a * 2^n, n whole

}  // namespace
}  // namespace firstlight::kernels
// NOLINTEND
