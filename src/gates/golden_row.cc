// SPDX-License-Identifier: Apache-2.0
#include "gates/golden_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "align/pack.h"
#include "align/sketch.h"
#include "engine/sampler.h"
#include "tolerance/tolerances.h"

namespace firstlight::gates {
namespace {

std::vector<int32_t> largest(std::span<const float> logits, size_t count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min(count, order.size());
  const auto value = [&](int32_t id) {
    const float logit = logits[static_cast<size_t>(id)];
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto before = [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), before);
  order.resize(count);
  return order;
}

// Distances where every number of the row is known.
void compare_whole(std::span<const float> found, const GoldenRow& wanted, double found_log_sum, RowResult& out) {
  double difference = 0, norm = 0, found_norm = 0, product = 0, sum = 0, kl = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    ++out.ulps[align::ulp_bin(wanted.logits[i], found[i])];
    const double a = found[i], b = wanted.logits[i];
    if (a == b && std::isinf(a)) continue;  // a token that may not follow, on both sides
    difference += (a - b) * (a - b);
    norm += b * b;
    found_norm += a * a;
    product += a * b;
    sum += b;
    out.max_abs = std::max(out.max_abs, std::abs(a - b));
    const double log_p = b - wanted.log_sum_exp;
    const double p = std::exp(log_p);
    if (p > 0) kl += p * (log_p - (a - found_log_sum));
  }
  const auto count = static_cast<double>(found.size());
  out.rel_l2 = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  out.cosine = norm > 0 && found_norm > 0 ? product / std::sqrt(norm * found_norm) : 1;
  out.spread = std::sqrt(std::max(0.0, norm / count - sum / count * (sum / count)));
  out.kl = std::isnan(kl) ? kl : std::max(kl, 0.0);
  if (std::isnan(difference)) out.rel_l2 = out.max_abs = difference;
}

// Of the largest that are known, all the others joined to one outcome: joining never makes a divergence larger.
double divergence_bound(std::span<const float> found, const GoldenRow& wanted, double found_log_sum) {
  constexpr double kTiny = 1e-6;  // what float32 leaves of 1
  double kl = 0, rest = 1, found_rest = 1, largest_logit = 0;
  for (size_t k = 0; k < wanted.top_ids.size(); ++k) {
    const double log_p = static_cast<double>(wanted.top_logits[k]) - wanted.log_sum_exp;
    const double found_log_p = static_cast<double>(found[static_cast<size_t>(wanted.top_ids[k])]) - found_log_sum;
    kl += std::exp(log_p) * (log_p - found_log_p);
    largest_logit = std::max(largest_logit, std::abs(static_cast<double>(wanted.top_logits[k])));
    rest -= std::exp(log_p);
    found_rest -= std::exp(found_log_p);
  }
  if (rest > kTiny && found_rest > kTiny) kl += rest * std::log(rest / found_rest);
  kl -= 2 * tolerance::kUnit * (std::abs(wanted.log_sum_exp) + largest_logit);  // they are stored in float32
  return std::isnan(kl) ? kl : std::max(kl, 0.0);
}

void compare_sketch(std::span<const float> found, const GoldenRow& wanted, uint64_t seed, double found_log_sum,
                    RowResult& out) {
  std::vector<float> sketch(wanted.sketch.size());
  align::sketch_row(found, seed, sketch);
  double found_norm = 0;
  bool plain = true;
  for (const float value : found) {
    plain = plain && !std::isnan(value);
    if (!align::is_plain(value)) continue;
    found_norm += static_cast<double>(value) * static_cast<double>(value);
  }
  const double difference = align::estimate_squared_distance(sketch, wanted.sketch);
  const double norm = wanted.norm * wanted.norm;
  out.estimated = true;
  out.uncertain = std::sqrt(0.5 / static_cast<double>(std::max<size_t>(wanted.sketch.size(), 1)));
  out.rel_l2 = std::sqrt(norm > 0 ? difference / norm : difference);
  if (norm > 0 && found_norm > 0) {
    out.cosine = std::min(1.0, (norm + found_norm - difference) / 2 / std::sqrt(norm * found_norm));
  }
  out.spread = wanted.norm / std::sqrt(static_cast<double>(found.size()));
  out.kl = divergence_bound(found, wanted, found_log_sum);
  if (!plain) out.rel_l2 = std::nan("");
}

void score(std::span<const float> found, const GoldenRow& wanted, int32_t next, double found_log_sum, RowResult& out) {
  if (next < 0) return;
  out.found_surprise = found_log_sum - static_cast<double>(found[static_cast<size_t>(next)]);
  if (!wanted.logits.empty()) {
    out.surprise = wanted.log_sum_exp - static_cast<double>(wanted.logits[static_cast<size_t>(next)]);
    out.scored = true;
    return;
  }
  const auto place = std::find(wanted.top_ids.begin(), wanted.top_ids.end(), next);
  if (place == wanted.top_ids.end()) return;
  const auto index = static_cast<size_t>(place - wanted.top_ids.begin());
  out.surprise = wanted.log_sum_exp - static_cast<double>(wanted.top_logits[index]);
  out.scored = true;
}

}  // namespace

GoldenRow whole_row(int64_t position, std::span<const float> logits) {
  GoldenRow row{
      .position = position, .logits = {logits.begin(), logits.end()}, .sketch = {}, .top_ids = {}, .top_logits = {}};
  row.top_ids = largest(logits, static_cast<size_t>(align::kTopLogits));
  for (const int32_t id : row.top_ids) row.top_logits.push_back(logits[static_cast<size_t>(id)]);
  double squares = 0;
  for (const float value : logits) squares += static_cast<double>(value) * static_cast<double>(value);
  row.norm = std::sqrt(squares);
  row.log_sum_exp = engine::log_sum_exp(logits);
  return row;
}

RowResult compare_row(std::span<const float> logits, const GoldenRow& wanted, int32_t next, uint64_t seed) {
  RowResult out{.position = wanted.position};
  const double log_sum = engine::log_sum_exp(logits);
  if (wanted.logits.empty()) {
    compare_sketch(logits, wanted, seed, log_sum, out);
  } else {
    compare_whole(logits, wanted, log_sum, out);
  }
  score(logits, wanted, next, log_sum, out);
  constexpr size_t kBest = 5;
  const auto found_best = largest(logits, kBest);
  out.best = wanted.top_ids.empty() ? -1 : wanted.top_ids[0];
  out.found_best = found_best.empty() || std::isnan(out.rel_l2) ? -1 : found_best[0];
  const size_t compared = std::min(found_best.size(), wanted.top_ids.size());
  size_t common = 0;
  for (size_t k = 0; k < compared; ++k) {
    common += std::count(found_best.begin(), found_best.end(), wanted.top_ids[k]) > 0 ? 1 : 0;
  }
  if (compared > 0) out.top5 = static_cast<double>(common) / static_cast<double>(compared);
  const double rms = wanted.norm / std::sqrt(static_cast<double>(std::max<size_t>(logits.size(), 1)));
  if (wanted.top_logits.size() > 1 && rms > 0) {
    out.margin = (static_cast<double>(wanted.top_logits[0]) - static_cast<double>(wanted.top_logits[1])) / rms;
  }
  return out;
}

}  // namespace firstlight::gates
