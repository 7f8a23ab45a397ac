// SPDX-License-Identifier: Apache-2.0
#include "attend_judge.h"

#include <algorithm>
#include <cmath>

#include "ops/attributes.h"

namespace firstlight::long_tests {
namespace {

constexpr double kUnit = 0x1p-24;

// All that a causal mask, a window and chunks leave.
bool sees(const AttendRules& rules, int64_t position, int64_t row) {
  if (row > position) return false;
  if (rules.window > 0 && row + rules.window <= position) return false;
  return rules.chunk == 0 || row / rules.chunk == position / rules.chunk;
}

struct Extent {
  double largest_sum = 0;  // of absolute products, times the scale
  double low = HUGE_VAL, top = -HUGE_VAL;
};

double bound_of(const AttendRules& rules, const Extent& seen, double sink, double largest_value) {
  const double lanes = static_cast<double>(rules.key_width) / 8;
  const double score = (lanes + 10) * kUnit * seen.largest_sum + 10 * kUnit * rules.cap + kUnit * sink;
  return (2 * (score + 9 * kUnit * (seen.top - seen.low)) + 120 * kUnit) * largest_value;
}

}  // namespace

AttendAnswer judge_attend(const AttendRules& rules, const PagedLog& log, int64_t first, const float* q,
                          int64_t position, int64_t head, double sink) {
  const int64_t kv_head = head / (rules.heads / rules.kv_heads);
  std::vector<double> scores;
  std::vector<int64_t> rows;
  Extent seen;
  seen.top = sink;
  for (int64_t row = 0; row <= position; ++row) {
    if (!sees(rules, position, row)) continue;
    const float* k = log.row(0, first + row, kv_head);
    double dot = 0, sum = 0;
    for (int64_t i = 0; i < rules.key_width; ++i) {
      const double product = static_cast<double>(q[i]) * static_cast<double>(k[i]);
      dot += product;
      sum += std::fabs(product);
    }
    double score = dot * rules.scale;
    if (rules.cap > 0) score = rules.cap * std::tanh(score / rules.cap);
    seen.largest_sum = std::max(seen.largest_sum, sum * rules.scale);
    seen.top = std::max(seen.top, score);
    seen.low = std::min(seen.low, score);
    scores.push_back(score);
    rows.push_back(row);
  }
  AttendAnswer out;
  out.y.assign(static_cast<size_t>(rules.value_width), 0.0);
  double total = std::isfinite(sink) ? std::exp(sink - seen.top) : 0, largest_value = 0;
  for (size_t j = 0; j < rows.size(); ++j) {
    const double weight = std::exp(scores[j] - seen.top);
    total += weight;
    const float* value = log.row(rules.is_latent ? 0 : 1, first + rows[j], kv_head);
    for (int64_t i = 0; i < rules.value_width; ++i) {
      out.y[static_cast<size_t>(i)] += weight * static_cast<double>(value[i]);
      largest_value = std::max(largest_value, std::fabs(static_cast<double>(value[i])));
    }
  }
  for (double& y : out.y) y /= total;
  out.bound = bound_of(rules, seen, std::isfinite(sink) ? std::fabs(sink) : 0, largest_value);
  out.bound_on_device = 2 * out.bound + static_cast<double>(rows.size()) / 16 * kUnit * largest_value;
  return out;
}

std::string attend_attributes(const AttendRules& rules) {
  std::string text = "{scale = " + ops::exact_decimal(rules.scale) + ", key = \"k\", value = \"" +
                     (rules.is_latent ? "k" : "v") + "\", value_width = " + std::to_string(rules.value_width);
  if (rules.window > 0) text += ", window = " + std::to_string(rules.window);
  if (rules.chunk > 0) text += ", chunk = " + std::to_string(rules.chunk);
  const std::string cap = ops::exact_decimal(rules.cap);
  if (rules.cap > 0) text += ", score = mul(" + cap + ", tanh(div(x0, " + cap + ")))";
  return text + "}";
}

}  // namespace firstlight::long_tests
