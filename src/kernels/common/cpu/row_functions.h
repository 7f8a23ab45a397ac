// SPDX-License-Identifier: Apache-2.0
// RowOps in the words of simd_*.h; included by row_ops_<isa>.cc alone, behind vector_math.h.
#pragma once

namespace firstlight::kernels {
namespace {

constexpr int64_t kSumChunk = 256;

double sum_of_squares(const float* x, int64_t n) {
  const int64_t whole = n / kLanes * kLanes;
  double sum = sum_squares(x, whole);
  for (int64_t i = whole; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void rms_norm(const float* x, int64_t n, const float* weight, double eps, double offset, float* out) {
  const double mean = sum_of_squares(x, n) / static_cast<double>(n);
  const auto r = static_cast<float>(1.0 / __builtin_sqrt(mean + eps));
  const auto shift = static_cast<float>(offset);
  int64_t i = 0;
  if (weight == nullptr) {
    for (; i + kLanes <= n; i += kLanes) store_f(out + i, mul_f(load_f(x + i), set_f(r)));
    for (; i < n; ++i) out[i] = x[i] * r;
    return;
  }
  for (; i + kLanes <= n; i += kLanes) {
    store_f(out + i, mul_f(mul_f(load_f(x + i), set_f(r)), add_f(load_f(weight + i), set_f(shift))));
  }
  for (; i < n; ++i) out[i] = x[i] * r * (weight[i] + shift);
}

void layer_norm(const float* x, int64_t n, const float* weight, const float* bias, double eps, float* out) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    squares += d * d;
  }
  const double r = 1.0 / __builtin_sqrt(squares / static_cast<double>(n) + eps);
  for (int64_t i = 0; i < n; ++i) {
    const auto normed = static_cast<float>((static_cast<double>(x[i]) - mean) * r);
    out[i] = normed * (weight == nullptr ? 1.0f : weight[i]) + (bias == nullptr ? 0.0f : bias[i]);
  }
}

float max_of_row(const float* x, int64_t n) {
  float top = -__builtin_inff();
  int64_t i = 0;
  if (n >= kLanes) {
    Float tops = load_f(x);
    for (i = kLanes; i + kLanes <= n; i += kLanes) tops = max_f(load_f(x + i), tops);
    float lanes[kLanes];
    store_f(lanes, tops);
    for (const float lane : lanes) top = lane > top ? lane : top;
  }
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

// A NaN in the row reaches the sum through its own exponential, and from there every element.
void softmax(const float* x, int64_t n, float* out) {
  const float top = max_of_row(x, n);
  double sum = 0;
  for (int64_t first = 0; first < n; first += kSumChunk) {
    const int64_t end = first + kSumChunk < n ? first + kSumChunk : n;
    Float sums = zero_f();
    int64_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
      const Float e = exp_f(sub_f(load_f(x + i), set_f(top)));
      store_f(out + i, e);
      sums = add_f(sums, e);
    }
    sum += static_cast<double>(sum_of(sums));
    if (i == end) continue;
    float rest[kLanes] = {};
    for (int64_t k = i; k < end; ++k) rest[k - i] = x[k] - top;
    store_f(rest, exp_f(load_f(rest)));
    for (int64_t k = i; k < end; ++k) {
      out[k] = rest[k - i];
      sum += static_cast<double>(out[k]);
    }
  }
  const auto factor = static_cast<float>(1.0 / sum);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_f(out + i, mul_f(load_f(out + i), set_f(factor)));
  for (; i < n; ++i) out[i] *= factor;
}

}  // namespace
}  // namespace firstlight::kernels
