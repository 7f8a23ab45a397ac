// SPDX-License-Identifier: Apache-2.0
#include "gates/logits_bound.h"

#include <algorithm>
#include <cmath>

#include "align/rounding.h"
#include "tolerance/tolerances.h"

namespace firstlight::gates {
double logits_bound(const plan::Plan& plan) {
  const align::Rounding rounding = align::rounding_of(plan);
  const auto layers = static_cast<double>(std::max<size_t>(plan.states.size(), 1));
  return tolerance::explained(rounding.step, rounding.products_per_layer * layers);
}

RowComparison compare_rows(std::span<const float> found, std::span<const float> wanted, double bound) {
  RowComparison row;
  double difference = 0, norm = 0, other_norm = 0, product = 0;
  size_t best_found = 0, best_wanted = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double a = found[i], b = wanted[i];
    difference += (a - b) * (a - b);
    norm += b * b;
    other_norm += a * a;
    product += a * b;
    row.max_abs = std::max(row.max_abs, std::abs(a - b));
    if (found[i] > found[best_found]) best_found = i;
    if (wanted[i] > wanted[best_wanted]) best_wanted = i;
  }
  row.rel_l2 = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  if (std::isnan(difference)) row.rel_l2 = row.max_abs = difference;
  row.cosine = norm > 0 && other_norm > 0 ? product / std::sqrt(norm * other_norm) : 1;
  row.best_equal = best_found == best_wanted && !std::isnan(difference);
  double second = -INFINITY;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i != best_wanted) second = std::max(second, static_cast<double>(wanted[i]));
  }
  // A relative L2 error of `bound` spread evenly over the row shifts one logit by about bound * rms(b).
  const double typical_shift = bound * std::sqrt(norm / static_cast<double>(std::max<size_t>(wanted.size(), 1)));
  row.best_decided = wanted[best_wanted] - second > 4 * typical_shift;
  return row;
}

}  // namespace firstlight::gates
