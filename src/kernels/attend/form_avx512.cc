// SPDX-License-Identifier: Apache-2.0
// attend's inner loops compiled for AVX-512. The build sets the instruction set for this file alone; what it includes
// behind <immintrin.h> is local to it.
#include "kernels/attend/form.h"
#include "tensor/state_rows.h"

#include <immintrin.h>

// The vocabulary comes before what is written in it.
// clang-format off
#include "kernels/common/cpu/simd_avx512.h"
#include "kernels/common/cpu/vector_math.h"
// clang-format on

namespace firstlight::kernels {
namespace {

FL_INLINE Float load_bf16(const std::byte* from) {
  return from_bits(shift_left(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))), 16));
}
FL_INLINE Float set_f16(const std::byte* from) {
  short half;
  __builtin_memcpy(&half, from, 2);
  return _mm512_cvtph_ps(_mm256_set1_epi16(half));
}
// 2^-8 of the values of E4M3: their bits as the high bits of halves. NaN codes are not among a cache's.
FL_INLINE Float load_e4m3(const std::byte* from) {
  const __m256i codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  const __m256i spread = _mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 1);
  return _mm512_cvtph_ps(_mm256_and_si256(spread, _mm256_set1_epi16(static_cast<short>(0xbfff))));
}
FL_INLINE void store_four_sums(const Float* v, float* to) {
  __m256 h[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) h[i] = _mm256_add_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps(v[i], 1));
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}

}  // namespace
}  // namespace firstlight::kernels

// clang-format off
#include "kernels/attend/tiles.h"
#include "kernels/attend/pairs.h"
// clang-format on

namespace firstlight::kernels {

const AttendForm& attend_form_avx512() {
  static const AttendForm kForm = make_form(vector_ops_avx512(), &kPairForm);
  return kForm;
}

}  // namespace firstlight::kernels
