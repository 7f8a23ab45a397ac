// SPDX-License-Identifier: Apache-2.0
#include "adapt/logits_bound.h"

#include <algorithm>
#include <cmath>

namespace firstlight::adapt {
namespace {

// Root mean square relative error that rounding one matrix product's operands leaves in its result.
double product_error(const plan::Block& block) {
  double worst = 0;
  for (const plan::Step& step : block.steps) {
    if (const auto* kernel = std::get_if<plan::KernelStep>(&step.body)) {
      if (!kernel->attributes.has("compute")) continue;
      const std::string& mode = kernel->attributes.get_string("compute");
      // int8: half a step of max/127 uniform, with a block's maximum at about 3 times its rms: 3/254/sqrt(3).
      // bf16: 2^-9 uniform on both operands.
      worst = std::max(worst, mode == "int8" ? 6.8e-3 : mode == "bf16" ? 1.6e-3 : 3e-8);
    } else if (const auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) {
      worst = std::max(worst, product_error(*experts->body));
    }
  }
  return worst;
}

// Values as they are stored, and keys, whose error a score of size 2 carries into the softmax: the root of 1 + 2^2
// times the rounding.
double state_error(const plan::Plan& plan) {
  double worst = 0;
  for (const auto& state : plan.states) {
    for (const auto& part : state.components) {
      worst = std::max(worst, part.dtype == tensor::DType::kF16    ? 3.1e-4  // 2^-12, uniform
                              : part.dtype == tensor::DType::kBF16 ? 2.5e-3
                                                                   : 0.0);
    }
  }
  return worst;
}

}  // namespace

double logits_bound(const plan::Plan& plan) {
  // Whose errors are independent: of q and of k and v in two low-rank factors each (three for k and v: the first is
  // shared), output, gate, up, down.
  constexpr double kProductsPerLayer = 9;
  // A recurrence multiplies up to five of them with one another (input, key, query, gate, and the step, which also
  // stands in the exponent of the decay), and what it keeps carries all their errors on.
  constexpr double kProductsPerRecurrence = 27;
  constexpr double kSpread = 4;  // errors add up like a random walk; a row may be this far from the usual one
  double products = plan.states.empty() ? kProductsPerLayer : 0;
  for (const auto& state : plan.states)
    products += state.kind == ops::StateKind::kFixed ? kProductsPerRecurrence : kProductsPerLayer;
  const double step = std::hypot(product_error(plan.body), state_error(plan));
  return std::max(2e-5, kSpread * step * std::sqrt(products));
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

}  // namespace firstlight::adapt
