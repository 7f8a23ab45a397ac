// SPDX-License-Identifier: Apache-2.0
#include "gates/logits_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "align/rounding.h"
#include "tolerance/tolerances.h"

namespace firstlight::gates {
namespace {

struct Step {
  double size = 0, products = 1;
};

Step step_of(const plan::Plan& plan, double other) {
  const align::Rounding rounding = align::rounding_of(plan);
  const auto layers = static_cast<double>(std::max<size_t>(plan.states.size(), 1));
  return {std::hypot(rounding.step, other), rounding.products_per_layer * layers};
}

// Recurrences carry what their sums have lost from token to token, as kProductsPerRecurrence has it.
double floor_of(const plan::Plan& plan) {
  const bool recurs = std::any_of(plan.states.begin(), plan.states.end(),
                                  [](const ops::StateDecl& state) { return state.kind == ops::StateKind::kFixed; });
  return recurs ? tolerance::kFloor * tolerance::kProductsPerRecurrence / tolerance::kProductsPerLayer
                : tolerance::kFloor;
}

double mean_square(std::span<const RowResult> rows, auto value) {
  double sum = 0;
  for (const RowResult& row : rows) sum += value(row) * value(row);
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

// Standard deviation over the mean.
double deviation(std::span<const RowResult> rows, auto value) {
  double sum = 0;
  for (const RowResult& row : rows) sum += value(row);
  const double mean = sum / static_cast<double>(std::max<size_t>(rows.size(), 1));
  return mean > 0 ? std::sqrt(mean_square(rows, [&](const RowResult& row) { return value(row) - mean; })) / mean : 0;
}

double spread_of(std::span<const RowResult> rows) {
  return std::sqrt(mean_square(rows, [](const RowResult& row) { return row.spread; }));
}

std::string text(const char* pattern, auto... values) {
  char buffer[200];
  std::snprintf(buffer, sizeof(buffer), pattern, values...);
  return buffer;
}

}  // namespace

double logits_bound(const plan::Plan& plan, double other) {
  const Step step = step_of(plan, other);
  return tolerance::explained(step.size, step.products);
}

LogitsRounding estimated_rounding(const plan::Plan& plan, double other, std::span<const RowResult> rows) {
  const Step step = step_of(plan, other);
  const double distance = step.size * std::sqrt(step.products);
  const double shift = distance * spread_of(rows);
  return {.rel_l2 = distance, .kl = shift * shift / 2, .surprise = shift, .floor = floor_of(plan)};
}

LogitsRounding measured_rounding(const plan::Plan& plan, std::span<const RowResult> all, bool routed) {
  LogitsRounding out{.floor = floor_of(plan), .measured = true};
  std::vector<RowResult> rows(all.begin(), all.end());
  std::sort(rows.begin(), rows.end(), [](const RowResult& a, const RowResult& b) { return a.rel_l2 < b.rel_l2; });
  if (rows.empty()) return out;
  if (routed) {  // a turned choice stands out from all the others, whose median is an honest distance
    const double usual = tolerance::kRowOfMeasured * rows[rows.size() / 2].rel_l2;
    std::erase_if(rows, [&](const RowResult& row) { return row.rel_l2 > std::max(usual, tolerance::kFloor); });
    out.turned = 1 - static_cast<double>(rows.size()) / static_cast<double>(all.size());
  }
  double scored = 0;
  for (const RowResult& row : rows) {
    out.kl += row.kl / static_cast<double>(rows.size());
    out.worst = std::max(out.worst, row.rel_l2);
    if (!row.scored) continue;
    scored += 1;
    out.surprise += (row.found_surprise - row.surprise) * (row.found_surprise - row.surprise);
  }
  out.rel_l2 = std::sqrt(mean_square(rows, [](const RowResult& row) { return row.rel_l2; }));
  out.surprise = std::sqrt(out.surprise / std::max(scored, 1.0));
  out.tail = deviation(rows, [](const RowResult& row) { return row.rel_l2 * row.rel_l2; });
  out.kl_tail = deviation(rows, [](const RowResult& row) { return row.kl; });
  return out;
}

LogitsRounding with_other(LogitsRounding rounding, const plan::Plan& plan, double other,
                          std::span<const RowResult> rows) {
  const double distance = other * std::sqrt(step_of(plan, 0).products);
  const double shift = distance * spread_of(rows);
  rounding.rel_l2 = std::hypot(rounding.rel_l2, distance);
  rounding.kl += shift * shift / 2;
  rounding.surprise = std::hypot(rounding.surprise, shift);
  return rounding;
}

LogitsTolerance logits_tolerance(const LogitsRounding& rounding, std::span<const RowResult> rows, bool routed) {
  using namespace tolerance;
  int64_t scored = 0;
  for (const RowResult& row : rows) scored += row.scored ? 1 : 0;
  const auto count = static_cast<double>(std::max<size_t>(rows.size(), 1));
  const double least = rounding.floor * spread_of(rows);  // what two orders of summation may shift one logit by
  // How far the mean over so many rows may be from the mean over all.
  const double few = 1 + kSpread * rounding.tail / std::sqrt(count);
  const double few_kl = 1 + kSpread * rounding.kl_tail / std::sqrt(count);
  LogitsTolerance out;
  out.row = rounding.measured ? std::max(kRowOfMeasured * rounding.rel_l2, kRowsOfRounding * rounding.worst)
                              : kSpread * rounding.rel_l2;
  out.row = std::max(rounding.floor, out.row);
  out.rows = std::max(rounding.floor, kRowsOfRounding * rounding.rel_l2 * std::sqrt(few));
  out.kl = kRowsOfRounding * kRowsOfRounding * few_kl * (rounding.kl + least * least / 2);
  out.log_perplexity = kSpread * kRowsOfRounding * std::hypot(rounding.surprise, least) /
                           std::sqrt(static_cast<double>(std::max<int64_t>(scored, 1))) +
                       out.kl;
  out.margin = std::sqrt(2.0) * kSpread * std::max(rounding.floor, rounding.rel_l2);
  // Whole rows, so one at least: a prompt may be short.
  if (routed) out.beyond = std::ceil((kTurnedRows + kRowsOfRounding * rounding.turned) * count);
  return out;
}

PathFigures figures_of(std::span<const RowResult> rows, const LogitsTolerance& tolerance) {
  PathFigures out;
  double kl = 0, top5 = 0;
  std::vector<RowResult> usual;  // without the rows that were routed otherwise
  for (const RowResult& row : rows) {
    ++out.rows;
    const bool beyond = !(row.rel_l2 <= tolerance.row * (1 + tolerance::kSpread * row.uncertain));  // true for NaN
    out.beyond += beyond ? 1 : 0;
    if (!(row.rel_l2 <= out.worst_rel_l2)) {
      out.worst_rel_l2 = row.rel_l2;
      out.worst_position = row.position;
      if (std::isnan(row.rel_l2)) break;
    }
    out.max_abs = std::max(out.max_abs, row.max_abs);
    out.cosine = std::min(out.cosine, row.cosine);
    out.worst_kl = std::max(out.worst_kl, row.kl);
    top5 += row.top5;
    out.best_equal += row.best == row.found_best ? 1 : 0;
    if (beyond && tolerance.beyond > 0) continue;
    usual.push_back(row);
    kl += row.kl;
    // A distance spread over the row shifts one logit by as many root mean squares; two, apart by the root of 2.
    const double decides = std::max(tolerance.margin, std::sqrt(2.0) * tolerance::kSpread * row.rel_l2);
    out.best_wrong += row.best != row.found_best && row.margin > decides ? 1 : 0;
    if (!row.scored) continue;
    ++out.scored;
    out.log_perplexity += row.surprise;
    out.found_log_perplexity += row.found_surprise;
  }
  const auto count = static_cast<double>(std::max<size_t>(usual.size(), 1));
  out.rel_l2 = std::isnan(out.worst_rel_l2)
                   ? out.worst_rel_l2
                   : std::sqrt(mean_square(usual, [](const RowResult& row) { return row.rel_l2; }));
  out.kl = kl / count;
  out.top5 = top5 / static_cast<double>(std::max<int64_t>(out.rows, 1));
  out.log_perplexity /= static_cast<double>(std::max<int64_t>(out.scored, 1));
  out.found_log_perplexity /= static_cast<double>(std::max<int64_t>(out.scored, 1));
  return out;
}

std::string fault_of(const PathFigures& figures, const LogitsTolerance& tolerance) {
  const auto position = static_cast<long long>(figures.worst_position);
  if (std::isnan(figures.worst_rel_l2)) return text("position %lld has logits that are no numbers", position);
  if (static_cast<double>(figures.beyond) > tolerance.beyond) {
    return text("logits of %lld rows are too far away, most at position %lld: %.2e, %.2e allowed",
                static_cast<long long>(figures.beyond), position, figures.worst_rel_l2, tolerance.row);
  }
  if (figures.rel_l2 > tolerance.rows) {
    return text("logits are %.2e away in the root mean square, %.2e allowed", figures.rel_l2, tolerance.rows);
  }
  if (figures.best_wrong > 0) {
    return text("%lld rows have another best token where the margin decides",
                static_cast<long long>(figures.best_wrong));
  }
  if (figures.kl > tolerance.kl) return text("KL divergence %.2e, %.2e allowed", figures.kl, tolerance.kl);
  const double change = figures.found_log_perplexity - figures.log_perplexity;
  if (figures.scored > 0 && !(std::abs(change) <= tolerance.log_perplexity)) {
    return text("perplexity %.4f, %.4f wanted: %.2e apart in the logarithm, %.2e allowed",
                std::exp(figures.found_log_perplexity), std::exp(figures.log_perplexity), std::abs(change),
                tolerance.log_perplexity);
  }
  return "";
}

}  // namespace firstlight::gates
