// SPDX-License-Identifier: Apache-2.0
// attend's inner loops compiled for AVX2. The build sets the instruction set for this file alone; what it includes
// behind <immintrin.h> is local to it.
#include "kernels/attend/form.h"
#include "tensor/state_rows.h"

#include <immintrin.h>

// The vocabulary comes before what is written in it.
// clang-format off
#include "kernels/common/cpu/simd_avx2.h"
#include "kernels/common/cpu/vector_math.h"
// clang-format on

namespace firstlight::kernels {
namespace {

FL_INLINE Float load_bf16(const std::byte* from) {
  return from_bits(shift_left(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))), 16));
}
FL_INLINE Float set_f16(const std::byte* from) {
  short half;
  __builtin_memcpy(&half, from, 2);
  return _mm256_cvtph_ps(_mm_set1_epi16(half));
}
// 2^-8 of the values of E4M3: their bits as the high bits of halves. NaN codes are not among a cache's.
FL_INLINE Float load_e4m3(const std::byte* from) {
  const __m128i high = _mm_slli_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))), 8);
  return _mm256_cvtph_ps(_mm_and_si128(_mm_srai_epi16(high, 1), _mm_set1_epi16(static_cast<short>(0xbfff))));
}
FL_INLINE void store_four_sums(const Float* v, float* to) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}

}  // namespace
}  // namespace firstlight::kernels

#include "kernels/attend/tiles.h"

namespace firstlight::kernels {

const AttendForm& attend_form_avx2() {
  static const AttendForm kForm = make_form(vector_ops_avx2(), nullptr);
  return kForm;
}

}  // namespace firstlight::kernels
