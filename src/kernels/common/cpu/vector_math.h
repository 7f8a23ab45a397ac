// SPDX-License-Identifier: Apache-2.0
// Elementary functions in float32 vectors, in the words of simd_*.h; included by the per-instruction-set files alone.
// Errors, against the exact value (measured by vector_ops_test): exp, log, tanh, sigmoid within 4 units in the last
// place; overflow, subnormal results, infinities and NaN as in the C library.
#pragma once

namespace firstlight::kernels {
namespace {

// e^x = 2^n * e^r, n = round(x / ln 2), |r| <= ln 2 / 2; e^r by its Taylor series to r^7 (truncation below 2^-27).
FL_INLINE Float exp_f(Float x) {
  // The far ends are clamped where the result is 0 or infinity anyway; min(limit, x) keeps a NaN of x.
  const Float clamped = max_f(set_f(-110.0f), min_f(set_f(89.5f), x));
  const Float n = round_f(mul_f(clamped, set_f(1.44269504088896341f)));
  Float r = fnma_f(n, set_f(0.693359375f), clamped);  // ln 2 in two parts, the first exact in few bits
  r = fnma_f(n, set_f(-2.12194440e-4f), r);
  Float p = set_f(1.0f / 5040);
  p = fma_f(p, r, set_f(1.0f / 720));
  p = fma_f(p, r, set_f(1.0f / 120));
  p = fma_f(p, r, set_f(1.0f / 24));
  p = fma_f(p, r, set_f(1.0f / 6));
  p = fma_f(p, r, set_f(0.5f));
  p = fma_f(p, r, set_f(1.0f));
  p = fma_f(p, r, set_f(1.0f));
  return scale_by_power(p, n);
}

// log x = e ln 2 + log m, m in [sqrt(1/2), sqrt 2); log m = 2 atanh(s), s = (m - 1) / (m + 1), by its series to s^11.
FL_INLINE Float log_f(Float x) {
  const Mask tiny = less_f(x, set_f(1.17549435e-38f));
  const Float scaled = select_f(tiny, mul_f(x, set_f(8388608.0f)), x);
  const Int bits = bits_f(scaled);
  Float e = sub_f(float_of(shift_right(bits, 23)), set_f(127.0f));  // of a negative x the result is replaced below
  e = sub_f(e, select_f(tiny, set_f(23.0f), zero_f()));
  Float m = from_bits(or_i(and_i(bits, set_i(0x007fffff)), set_i(0x3f800000)));
  const Mask large = less_f(set_f(1.41421356f), m);
  m = select_f(large, mul_f(m, set_f(0.5f)), m);
  e = select_f(large, add_f(e, set_f(1.0f)), e);
  const Float f = sub_f(m, set_f(1.0f));
  const Float s = div_f(f, add_f(m, set_f(1.0f)));
  const Float z = mul_f(s, s);
  Float p = set_f(2.0f / 11);
  p = fma_f(p, z, set_f(2.0f / 9));
  p = fma_f(p, z, set_f(2.0f / 7));
  p = fma_f(p, z, set_f(2.0f / 5));
  p = fma_f(p, z, set_f(2.0f / 3));
  // log m = 2s + s z p = f - s (f - z p): exact to first order where m is near 1
  const Float log_m = sub_f(f, mul_f(s, sub_f(f, mul_f(z, p))));
  Float y = fma_f(e, set_f(-2.12194440e-4f), log_m);
  y = fma_f(e, set_f(0.693359375f), y);
  const Float infinity = set_f(__builtin_inff());
  y = select_f(equal_f(x, infinity), infinity, y);
  y = select_f(equal_f(x, zero_f()), set_f(-__builtin_inff()), y);
  y = select_f(less_f(x, zero_f()), set_f(__builtin_nanf("")), y);
  return select_f(is_nan_f(x), x, y);
}

FL_INLINE Float sigmoid_f(Float x) { return div_f(set_f(1.0f), add_f(set_f(1.0f), exp_f(sub_f(zero_f(), x)))); }

// Below 0.55: x + x^3 * (series of tanh to x^13); above: 1 - 2 / (e^2|x| + 1), which loses nothing there.
FL_INLINE Float tanh_f(Float x) {
  const Int sign = and_i(bits_f(x), set_i(static_cast<int32_t>(0x80000000u)));
  const Float a = from_bits(xor_i(bits_f(x), sign));
  const Float large = sub_f(set_f(1.0f), div_f(set_f(2.0f), add_f(exp_f(add_f(a, a)), set_f(1.0f))));
  const Float z = mul_f(x, x);
  Float p = set_f(-929569.0f / 638512875.0f);
  p = fma_f(p, z, set_f(21844.0f / 6081075.0f));
  p = fma_f(p, z, set_f(-1382.0f / 155925.0f));
  p = fma_f(p, z, set_f(62.0f / 2835.0f));
  p = fma_f(p, z, set_f(-17.0f / 315.0f));
  p = fma_f(p, z, set_f(2.0f / 15.0f));
  p = fma_f(p, z, set_f(-1.0f / 3.0f));
  const Float small = fma_f(mul_f(x, z), p, x);
  return select_f(less_f(a, set_f(0.55f)), small, from_bits(or_i(bits_f(large), sign)));
}

}  // namespace
}  // namespace firstlight::kernels
