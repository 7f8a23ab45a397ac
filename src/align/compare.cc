// SPDX-License-Identifier: Apache-2.0
#include "align/compare.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tolerance/tolerances.h"

namespace firstlight::align {
namespace {

// Layers' results, and how fast their distance grows: the slope of its logarithm over the layers, by least squares.
void add_growth(Comparison& out) {
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (const ValueComparison& value : out.values) {
    if (!value.info.is_layer_output || value.info.is_integer) continue;
    out.growth.push_back({.layer = value.info.name,
                          .rel_l2 = value.found.rel_l2,
                          .rounding = value.rounding ? value.rounding->rel_l2 : 0,
                          .allowed = value.allowed});
    if (!(value.found.rel_l2 > 0)) continue;
    const double x = static_cast<double>(out.growth.size()), y = std::log(value.found.rel_l2);
    n += 1;
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  const double spread = n * sum_xx - sum_x * sum_x;
  if (spread > 0) out.growth_per_layer = std::exp((n * sum_xy - sum_x * sum_y) / spread);
}

// `allowed`: where honest rounding was not measured.
void judge(ValueComparison& value, bool is_float32, double allowed) {
  const Distance& found = value.found;
  if (value.info.is_integer) {
    const bool exact = is_float32 && !value.rounding;
    value.allowed = exact ? 0 : tolerance::kTurnedRows + (value.rounding ? 2 * value.rounding->mismatch : 0);
    value.passed = found.finite && found.mismatch <= value.allowed;
    return;
  }
  value.allowed = value.rounding ? tolerance::explained_by(value.rounding->rel_l2) : allowed;
  value.passed = found.finite && found.rel_l2 <= value.allowed;  // false for NaN
  if (value.beyond) {
    value.passed = value.passed && value.beyond->rel_l2 <= tolerance::apart_from_rounded(value.rounding->rel_l2);
  }
}

}  // namespace

Result<Comparison> compare(const Pack& baseline, const Pack& tested, const Pack* rounded, const Pack* exact) {
  for (const Pack* pack : {&baseline, &tested}) FL_TRY(check_is_whole(*pack));
  for (const Pack* other : {&tested, rounded, exact}) {
    if (other != nullptr && other->layout.seed != baseline.layout.seed)
      return invalid_argument("the packs' sketches have different seeds");
  }
  Comparison out;
  PackPair pair(baseline, tested);
  std::optional<PackPair> honest, rest;
  const Pack& unrounded = exact != nullptr ? *exact : baseline;
  if (rounded != nullptr) {
    if (rounded->spec_hash != unrounded.spec_hash || rounded->weights_hash != unrounded.weights_hash) {
      return invalid_argument(
          "the rounded reference has another spec or other weights than the baseline: how far it is off is no "
          "rounding; compare with --model instead");
    }
    honest.emplace(unrounded, *rounded);
    rest.emplace(*rounded, tested);
  }
  if (pair.prompts().empty()) return invalid_argument("the packs have no prompt in common");
  out.prompts = static_cast<int64_t>(pair.prompts().size());
  const PackRounding of_tested = rounding_of(tested), of_baseline = rounding_of(baseline);
  const bool is_float32 = of_tested.is_float32() && of_baseline.is_float32();
  std::set<std::string> layers;
  for (size_t t = 0; t < baseline.taps.size(); ++t) {
    layers.insert(baseline.taps[t].layer);
    const auto other = pair.counterpart(t);
    if (!other) {
      const auto named = find_tap(tested, baseline.taps[t].name);
      if (named) {
        out.other_shapes.push_back(baseline.taps[t].name + ": " + std::to_string(tested.taps[*named].width) +
                                   " numbers per row, " + std::to_string(baseline.taps[t].width) + " in the baseline");
      } else {
        out.not_compared.push_back(baseline.taps[t].name);
      }
      continue;
    }
    ValueComparison value{.info = baseline.taps[t], .found = pair.distance(t, *other), .rounding = {}};
    if (honest) {
      const auto plain = find_tap(unrounded, value.info.name);
      if (const auto third = plain ? honest->counterpart(*plain) : std::nullopt) {
        value.rounding = honest->distance(*plain, *third);
        if (const auto last = rest->counterpart(*third)) value.beyond = rest->distance(*third, *last);
      }
    }
    judge(value, is_float32,
          allowed_distance(of_tested, of_baseline, static_cast<int64_t>(layers.size()), baseline.taps[t].noise));
    if (!value.passed && out.first_wrong < 0) out.first_wrong = static_cast<int64_t>(out.values.size());
    out.passed = out.passed && value.passed;
    out.values.push_back(std::move(value));
  }
  if (out.values.empty()) return invalid_argument("the packs have no value in common");
  for (const TapInfo& tap : tested.taps) {
    if (!find_tap(baseline, tap.name)) out.not_compared.push_back(tap.name);
  }
  out.logits = pair.logits(find_tap(baseline, "logits"), find_tap(tested, "logits"));
  out.rows_left_out = pair.num_turned();
  add_growth(out);
  out.sights = visible_faults(baseline, &tested);
  return out;
}

}  // namespace firstlight::align
