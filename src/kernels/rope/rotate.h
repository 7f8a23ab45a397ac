// SPDX-License-Identifier: Apache-2.0
// The parts of the CPU's rotations, in AVX2 (which is the build's own floor): sines and cosines of all pairs in
// float64, four at a time; heads rotated in float32.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace firstlight::kernels {

struct SinCos {
  __m256d sine;
  __m256d cosine;
};

// Angles up to 2^30: reduced by multiples of pi/2 held in two float64 parts, then the Taylor series on [-pi/4, pi/4],
// whose first left-out terms are below 1e-11.
inline SinCos sin_cos(__m256d angle) {
  const __m256d quarter = _mm256_round_pd(_mm256_mul_pd(angle, _mm256_set1_pd(0.63661977236758134308)),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256d r = _mm256_fnmadd_pd(quarter, _mm256_set1_pd(1.57079632679489655800e+00), angle);
  r = _mm256_fnmadd_pd(quarter, _mm256_set1_pd(6.12323399573676603587e-17), r);
  const __m256d z = _mm256_mul_pd(r, r);
  constexpr double kSine[] = {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
  constexpr double kCosine[] = {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0};
  __m256d s = _mm256_set1_pd(kSine[0]);
  for (int i = 1; i < 5; ++i) s = _mm256_fmadd_pd(s, z, _mm256_set1_pd(kSine[i]));
  s = _mm256_fmadd_pd(_mm256_mul_pd(s, z), r, r);
  __m256d c = _mm256_set1_pd(kCosine[0]);
  for (int i = 1; i < 7; ++i) c = _mm256_fmadd_pd(c, z, _mm256_set1_pd(kCosine[i]));
  // Which quarter: odd ones swap the two; sine turns negative in the second half, cosine in the middle two.
  const __m256i n = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(quarter));
  const __m256d swap = _mm256_castsi256_pd(_mm256_slli_epi64(n, 63));  // the sign bit selects
  const __m256d sine_sign = _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_srli_epi64(n, 1), 63));
  const __m256d cosine_sign =
      _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_srli_epi64(_mm256_add_epi64(n, _mm256_set1_epi64x(1)), 1), 63));
  return {_mm256_xor_pd(_mm256_blendv_pd(s, c, swap), sine_sign),
          _mm256_xor_pd(_mm256_blendv_pd(c, s, swap), cosine_sign)};
}

// scale * cos and +-scale * sin of position * freqs[i]; the arrays are padded to whole fours.
inline void fill_tables(const double* freqs, int64_t padded_half, double position, double scale, bool inverse,
                        float* cosine, float* sine) {
  const __m256d p = _mm256_set1_pd(position);
  const __m256d c_factor = _mm256_set1_pd(scale);
  const __m256d s_factor = _mm256_set1_pd(inverse ? -scale : scale);
  for (int64_t i = 0; i < padded_half; i += 4) {
    const SinCos both = sin_cos(_mm256_mul_pd(p, _mm256_loadu_pd(freqs + i)));
    _mm_storeu_ps(cosine + i, _mm256_cvtpd_ps(_mm256_mul_pd(both.cosine, c_factor)));
    _mm_storeu_ps(sine + i, _mm256_cvtpd_ps(_mm256_mul_pd(both.sine, s_factor)));
  }
}

inline void rotate_halves(const float* from, int64_t half, const float* cosine, const float* sine, float* to) {
  int64_t i = 0;
  for (; i + 8 <= half; i += 8) {
    const __m256 a = _mm256_loadu_ps(from + i);
    const __m256 b = _mm256_loadu_ps(from + half + i);
    const __m256 c = _mm256_loadu_ps(cosine + i);
    const __m256 s = _mm256_loadu_ps(sine + i);
    _mm256_storeu_ps(to + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
    _mm256_storeu_ps(to + half + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
  }
  for (; i < half; ++i) {
    const float a = from[i];
    const float b = from[half + i];
    to[i] = a * cosine[i] - b * sine[i];
    to[half + i] = b * cosine[i] + a * sine[i];
  }
}

inline void rotate_pairs(const float* from, int64_t half, const float* cosine, const float* sine, float* to) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  int64_t i = 0;
  for (; i + 4 <= half; i += 4) {
    const __m256 x = _mm256_loadu_ps(from + 2 * i);
    const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cosine + i)), twice);
    const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sine + i)), twice);
    const __m256 swapped = _mm256_permute_ps(x, 0xb1);
    _mm256_storeu_ps(to + 2 * i, _mm256_fmaddsub_ps(x, c, _mm256_mul_ps(swapped, s)));
  }
  for (; i < half; ++i) {
    const float a = from[2 * i];
    const float b = from[2 * i + 1];
    to[2 * i] = a * cosine[i] - b * sine[i];
    to[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}

}  // namespace firstlight::kernels
