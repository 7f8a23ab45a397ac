// SPDX-License-Identifier: Apache-2.0
// fake_quant: values as a small format holds them, a block of threads per block of columns. FL_LARGEST is the format's
// largest value; FL_LEAST_EXPONENT and FL_MANTISSA are a float format's, FL_WHOLE stands for integers. FL_SCALES is what
// a computed scale is rounded to: 0 nothing, 1 a power of two, 2 E4M3 times the given scale.
#include "dialect/values.fl.h"

#define FL_THREADS 64

// To the nearest value of a format with that least normal exponent, ties to even. Adding and taking off 1.5 * 2^(23 + u)
// rounds to multiples of 2^u, which is right below the least normal value; above it the bits are rounded.
FL_FUNCTION float fl_rounded_float(float value, int least_exponent, int mantissa, float largest) {
  if (fl_is_nan(value)) return value;
  const float clamped = fl_min(fl_max(value, -largest), largest);
  const int dropped = 23 - mantissa;
  const fl_u32 bits = fl_as_u32(clamped);
  const fl_u32 even = (bits >> dropped) & 1u;
  const fl_u32 rounded = (bits + ((1u << (dropped - 1)) - 1u) + even) & ~((1u << dropped) - 1u);
  const float magic = fl_as_f32(((fl_u32)(127 + 23 + least_exponent - mantissa) << 23) | 0x400000u);
  const float least_normal = fl_as_f32((fl_u32)(127 + least_exponent) << 23);
  const float shifted = clamped + magic;
  return fl_abs(clamped) < least_normal ? shifted - magic : fl_as_f32(rounded);
}

FL_FUNCTION float fl_rounded(float value) {
#ifdef FL_WHOLE
  const float magic = 12582912.0f;  // 1.5 * 2^23
  const float shifted = fl_min(fl_max(value, -FL_LARGEST - 1.0f), FL_LARGEST) + magic;
  return shifted - magic;
#else
  return fl_rounded_float(value, FL_LEAST_EXPONENT, FL_MANTISSA, FL_LARGEST);
#endif
}

// The least power of two from 2^-127 to 2^127 that is not below a positive number.
FL_FUNCTION float fl_power_above(float scale) {
  const fl_u32 bits = fl_as_u32(scale);
  if (bits == 0u || bits >= 0x7f800000u) return scale;
  if (bits <= 0x400000u) return fl_as_f32(0x400000u);
  const fl_u32 up = (bits + 0x7fffffu) & 0x7f800000u;
  return fl_as_f32(up < (254u << 23) ? up : 254u << 23);
}

FL_FUNCTION float fl_computed_scale(fl_u32 largest, float given) {
  if (largest >= 0x7f800000u) return FL_NAN;
  const float scale = fl_as_f32(largest) / FL_LARGEST;
#if FL_SCALES == 0
  return scale;
#elif FL_SCALES == 1
  return fl_power_above(scale);
#else
  const float whole = given == 0.0f ? 1.0f : given;
  return whole * fl_rounded_float(scale / whole, -6, 3, 448.0f);
#endif
}

FL_KERNEL(fake_quant)(FL_GLOBAL(const float) x, FL_GLOBAL(const fl_u8) stored, FL_GLOBAL(float) out, fl_i64 columns,
                      fl_i64 block, fl_i64 blocks, float scale, float least) {
  FL_LOCAL(fl_u32, parts, [FL_THREADS]);
  const fl_i64 row = fl_group_id(0) / blocks;
  const fl_i64 first = fl_group_id(0) % blocks * block;
  const fl_i64 end = first + block < columns ? first + block : columns;
  fl_u32 largest = fl_as_u32(least);
  for (fl_i64 i = first + fl_local_id(0); i < end; i += FL_THREADS) {
    const fl_u32 magnitude = fl_as_u32(x[row * columns + i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  parts[fl_local_id(0)] = largest;
  FL_BARRIER();
  for (int i = 0; i < FL_THREADS; ++i) largest = parts[i] > largest ? parts[i] : largest;
  float given = scale;
  if (stored) given = FL_LOAD_S(stored, 0);
  const float s = FL_SCALES != 2 && given != 0.0f ? given : fl_computed_scale(largest, given);
  for (fl_i64 i = first + fl_local_id(0); i < end; i += FL_THREADS) {
    out[row * columns + i] = s == 0.0f ? 0.0f : s * fl_rounded(x[row * columns + i] / s);
  }
}
