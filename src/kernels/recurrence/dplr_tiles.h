// SPDX-License-Identifier: Apache-2.0
// dplr token by token, in the words of simd_*.h; included by form_<isa>.cc alone, behind matrix_tiles.h. With e =
// exp(w) a row of S gives y = S.(e * r) + (S.a)(b.r) + v (k.r), so that it is read once for y and once for the update.
#pragma once

namespace firstlight::kernels {
namespace {

// One token's rows, padded: decayed = e * r.
struct DplrToken {
  const float *factor, *a, *b, *k, *decayed;
  float b_r, k_r;
};

// kRows rows of S, `stride` apart; v and y are theirs.
template <int kRows>
FL_INLINE void dplr_rows(const DplrToken& token, float* state, int64_t stride, int64_t kp, const float* v, float* y) {
  Float from_a[4] = {zero_f(), zero_f(), zero_f(), zero_f()};
  Float from_r[4] = {zero_f(), zero_f(), zero_f(), zero_f()};
  for (int64_t i = 0; i < kp; i += kLanes) {
    const Float a = load_f(token.a + i), r = load_f(token.decayed + i);
#pragma GCC unroll 4
    for (int j = 0; j < kRows; ++j) {
      const Float line = load_f(state + j * stride + i);
      from_a[j] = fma_f(line, a, from_a[j]);
      from_r[j] = fma_f(line, r, from_r[j]);
    }
  }
  float seen[4], answer[4];
  store_four_sums(from_a, seen);
  store_four_sums(from_r, answer);
  for (int j = 0; j < kRows; ++j) y[j] = answer[j] + seen[j] * token.b_r + v[j] * token.k_r;
  for (int64_t i = 0; i < kp; i += kLanes) {
    const Float e = load_f(token.factor + i), b = load_f(token.b + i), k = load_f(token.k + i);
#pragma GCC unroll 4
    for (int j = 0; j < kRows; ++j) {
      float* line = state + j * stride + i;
      const Float added = fma_f(set_f(seen[j]), b, mul_f(set_f(v[j]), k));
      store_f(line, fma_f(load_f(line), e, added));
    }
  }
}

void dplr(const DplrHead& h) {
  const int64_t kp = padded(h.key);
  float *factor = h.scratch, *a = factor + kp, *b = a + kp, *k = b + kp, *r = k + kp, *decayed = r + kp;
  for (int64_t t = 0; t < h.count; ++t) {
    const int64_t at = t * h.key_stride;
    copy_padded(h.w + at, h.key, kp, factor);
    copy_padded(h.a + at, h.key, kp, a);
    copy_padded(h.b + at, h.key, kp, b);
    copy_padded(h.k + at, h.key, kp, k);
    copy_padded(h.r + at, h.key, kp, r);
    for (int64_t i = 0; i < kp; i += kLanes) store_f(factor + i, exp_f(load_f(factor + i)));
    multiply_rows(factor, r, kp, decayed);
    const DplrToken token{factor, a, b, k, decayed, dot_rows(b, r, kp), dot_rows(k, r, kp)};
    const float* v = h.v + t * h.value_stride;
    float* y = h.y + t * h.value_stride;
    int64_t j = 0;
    for (; j + 4 <= h.value; j += 4)
      dplr_rows<4>(token, h.state + j * h.state_stride, h.state_stride, kp, v + j, y + j);
    for (; j < h.value; ++j) dplr_rows<1>(token, h.state + j * h.state_stride, h.state_stride, kp, v + j, y + j);
  }
}

}  // namespace
}  // namespace firstlight::kernels
