// SPDX-License-Identifier: Apache-2.0
// The words of generated CPU kernels, as text: float32 functions without branches, so that the compiler turns loops
// over them into vector code. Accuracy as of the library's own forms (kernels/common/cpu/vector_math.h, tested
// together): exp, log, log1p, tanh and sigmoid within 4 units in the last place; NaN, infinities and subnormal results
// as in the C library.
#include "compiler/codegen/cpu_source.h"

namespace firstlight::compiler {

const char* const kCpuPrologue = R"source(#include <math.h>
#include <string.h>

#define FL_INLINE static inline __attribute__((always_inline))
#define FL_INFINITY __builtin_inff()
#define FL_NAN __builtin_nanf("")
typedef long long fl_int;

FL_INLINE unsigned fl_bits(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
FL_INLINE float fl_from_bits(unsigned u) { float x; memcpy(&x, &u, 4); return x; }
FL_INLINE float fl_abs(float x) { return __builtin_fabsf(x); }
FL_INLINE float fl_min(float a, float b) { float m = a < b ? a : b; m = a != a ? a : m; return b != b ? b : m; }
FL_INLINE float fl_max(float a, float b) { float m = a > b ? a : b; m = a != a ? a : m; return b != b ? b : m; }
FL_INLINE float fl_sign(float x) { float s = x > 0.0f ? 1.0f : x; return x < 0.0f ? -1.0f : s; }
FL_INLINE float fl_floor(float x) { return __builtin_floorf(x); }
FL_INLINE float fl_sqrt(float x) { return __builtin_sqrtf(x); }
FL_INLINE float fl_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
FL_INLINE float fl_pow(float a, float b) { return powf(a, b); }
FL_INLINE float fl_expm1(float x) { return expm1f(x); }
FL_INLINE float fl_erf(float x) { return erff(x); }
FL_INLINE float fl_sin(float x) { return sinf(x); }
FL_INLINE float fl_cos(float x) { return cosf(x); }

// e^x = 2^n e^r with |r| <= ln 2 / 2, ln 2 in two parts; the power in two steps, for results near the ends.
FL_INLINE float fl_exp(float x) {
  float c = x > 89.5f ? 89.5f : x;
  c = c < -110.0f ? -110.0f : c;
  const float n = __builtin_rintf(c * 1.44269504088896341f);
  float r = __builtin_fmaf(-n, 0.693359375f, c);
  r = __builtin_fmaf(-n, -2.12194440e-4f, r);
  float p = 1.0f / 5040;
  p = __builtin_fmaf(p, r, 1.0f / 720);
  p = __builtin_fmaf(p, r, 1.0f / 120);
  p = __builtin_fmaf(p, r, 1.0f / 24);
  p = __builtin_fmaf(p, r, 1.0f / 6);
  p = __builtin_fmaf(p, r, 0.5f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  const int whole = (int)n;
  const int half = whole >> 1;
  p = p * fl_from_bits((unsigned)(half + 127) << 23);
  return p * fl_from_bits((unsigned)(whole - half + 127) << 23);
}

// log x = e ln 2 + log m, m in [sqrt(1/2), sqrt 2); log m = 2 atanh((m - 1) / (m + 1)) by its series.
FL_INLINE float fl_log(float x) {
  const float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
  const unsigned bits = fl_bits(scaled);
  float e = (float)(int)(bits >> 23) - 127.0f;
  e = x < 1.17549435e-38f ? e - 23.0f : e;
  float m = fl_from_bits((bits & 0x007fffffu) | 0x3f800000u);
  const float up = m > 1.41421356f ? 1.0f : 0.0f;
  m = m > 1.41421356f ? m * 0.5f : m;
  e = e + up;
  const float f = m - 1.0f;
  const float s = f / (m + 1.0f);
  const float z = s * s;
  float p = 2.0f / 11;
  p = __builtin_fmaf(p, z, 2.0f / 9);
  p = __builtin_fmaf(p, z, 2.0f / 7);
  p = __builtin_fmaf(p, z, 2.0f / 5);
  p = __builtin_fmaf(p, z, 2.0f / 3);
  float y = __builtin_fmaf(e, -2.12194440e-4f, f - s * (f - z * p));
  y = __builtin_fmaf(e, 0.693359375f, y);
  y = x == FL_INFINITY ? x : y;
  y = x == 0.0f ? -FL_INFINITY : y;
  y = x < 0.0f ? FL_NAN : y;
  return x != x ? x : y;
}

// log(1 + x) from the log of the rounded sum u, put right by the part of x that the rounding lost.
FL_INLINE float fl_log1p(float x) {
  const float u = 1.0f + x;
  const float d = u - 1.0f;
  const float y = fl_log(u) * (x / d);
  const float z = d == 0.0f ? x : y;
  return u == FL_INFINITY ? u : (u == 0.0f ? -FL_INFINITY : z);
}

FL_INLINE float fl_sigmoid(float x) { return 1.0f / (1.0f + fl_exp(-x)); }

// Below 0.55 by its series, above by 1 - 2 / (e^2|x| + 1).
FL_INLINE float fl_tanh(float x) {
  const float a = __builtin_fabsf(x);
  const float large = __builtin_copysignf(1.0f - 2.0f / (fl_exp(a + a) + 1.0f), x);
  const float z = x * x;
  float p = -929569.0f / 638512875.0f;
  p = __builtin_fmaf(p, z, 21844.0f / 6081075.0f);
  p = __builtin_fmaf(p, z, -1382.0f / 155925.0f);
  p = __builtin_fmaf(p, z, 62.0f / 2835.0f);
  p = __builtin_fmaf(p, z, -17.0f / 315.0f);
  p = __builtin_fmaf(p, z, 2.0f / 15.0f);
  p = __builtin_fmaf(p, z, -1.0f / 3.0f);
  const float small = __builtin_fmaf(x * z, p, x);
  return a < 0.55f ? small : large;
}

// Sums in float64, sixteen lanes at a time.
#define FL_LANES 16
#define FL_SUM(total, n, i, element)                                                  \
  double total = 0.0;                                                                 \
  {                                                                                   \
    double lanes[FL_LANES] = {0};                                                     \
    fl_int i##_first = 0;                                                             \
    for (; i##_first + FL_LANES <= (n); i##_first += FL_LANES) {                      \
      for (int lane = 0; lane < FL_LANES; ++lane) {                                   \
        const fl_int i = i##_first + lane;                                            \
        lanes[lane] += (double)(element);                                             \
      }                                                                               \
    }                                                                                 \
    for (fl_int i = i##_first; i < (n); ++i) total += (double)(element);              \
    for (int lane = 0; lane < FL_LANES; ++lane) total += lanes[lane];                 \
  }

// The largest, sixteen lanes at a time; NaN where there is one.
#define FL_MAX_LANES 16
#define FL_MAX(top, n, i, element)                                                    \
  float top = -FL_INFINITY;                                                           \
  {                                                                                   \
    float lanes[FL_MAX_LANES];                                                        \
    for (int lane = 0; lane < FL_MAX_LANES; ++lane) lanes[lane] = -FL_INFINITY;       \
    fl_int i##_first = 0;                                                             \
    for (; i##_first + FL_MAX_LANES <= (n); i##_first += FL_MAX_LANES) {              \
      for (int lane = 0; lane < FL_MAX_LANES; ++lane) {                               \
        const fl_int i = i##_first + lane;                                            \
        lanes[lane] = fl_max(lanes[lane], element);                                   \
      }                                                                               \
    }                                                                                 \
    for (fl_int i = i##_first; i < (n); ++i) top = fl_max(top, element);              \
    for (int lane = 0; lane < FL_MAX_LANES; ++lane) top = fl_max(top, lanes[lane]);   \
  }

// The largest element, sixteen lanes at a time; NaN is passed over.
#define FL_TOP(top, n, i, element)                                                    \
  float top = -FL_INFINITY;                                                           \
  {                                                                                   \
    float lanes[16];                                                                  \
    for (int lane = 0; lane < 16; ++lane) lanes[lane] = -FL_INFINITY;                 \
    fl_int i##_first = 0;                                                             \
    for (; i##_first + 16 <= (n); i##_first += 16) {                                  \
      for (int lane = 0; lane < 16; ++lane) {                                         \
        const fl_int i = i##_first + lane;                                            \
        lanes[lane] = (element) > lanes[lane] ? (element) : lanes[lane];              \
      }                                                                               \
    }                                                                                 \
    for (fl_int i = i##_first; i < (n); ++i) top = (element) > top ? (element) : top; \
    for (int lane = 0; lane < 16; ++lane) top = lanes[lane] > top ? lanes[lane] : top; \
  }

)source";

}  // namespace firstlight::compiler
