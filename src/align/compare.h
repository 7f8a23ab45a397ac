// SPDX-License-Identifier: Apache-2.0
// Two packs, value by value: how far apart, and whether rounding explains it. With a third one (the reference, its
// operands rounded as the tested side rounds them) honest rounding is measured instead of bounded. docs/golden_pack.md
// derives what is allowed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align/identity.h"
#include "align/pack.h"
#include "base/json_fwd.h"

namespace firstlight::align {

// Bin 0: equal; bin b: 2^(b-1) to 2^b - 1 representable numbers apart; the last: further, or not finite.
inline constexpr size_t kUlpBins = 26;
using UlpHistogram = std::array<int64_t, kUlpBins>;
size_t ulp_bin(float a, float b);

struct Distance {
  double rel_l2 = 0;     // of the sampled rows; of the worst prompt
  double worst_row = 0;  // of one row, against the larger of its own norm and a tenth of the usual one
  int64_t worst_row_id = -1;
  double max_abs = 0;  // of the rows kept whole
  double cosine = 1;
  UlpHistogram ulps{};    // of the rows kept whole
  double mismatch = 0;    // integers: share of the rows whose numbers are not the same set
  bool estimated = true;  // from sketches; false: every row was kept
  bool finite = true;     // both sides have the same number of values that are not finite
};

struct ValueComparison {
  TapInfo info;
  Distance found;                    // tested against baseline
  std::optional<Distance> rounding;  // rounded reference against baseline
  std::optional<Distance> beyond;    // tested against rounded reference: what its rounding does not explain
  double allowed = 0;                // of rel_l2, or of the mismatch
  bool passed = true;
};

struct LogitsComparison {
  int64_t rows = 0;
  double top1 = 1, top5 = 1;  // share of rows with the same best token; of the best five that both have
  double kl_bound = 0;        // mean over the rows: at least that far apart, from the largest logits
  double kl_worst = 0;        // of the rows kept whole, exact
  int64_t kl_rows = 0;
  bool greedy_equal = true;  // as far as both have it
};

struct Growth {  // of a layer's result
  std::string layer;
  double rel_l2 = 0, rounding = 0, allowed = 0;
};

struct Comparison {
  bool passed = true;
  int64_t first_wrong = -1;  // into values
  std::vector<ValueComparison> values;
  LogitsComparison logits;
  std::vector<Growth> growth;
  double growth_per_layer = 1;  // factor, fitted over the layers
  int64_t prompts = 0;
  int64_t rows_left_out = 0;              // a routing decision turned on a rounding there
  std::vector<std::string> other_shapes;  // "name: 64 numbers per row, 32 in the baseline"; not compared
  std::vector<std::string> not_compared;  // in one of the packs alone
  std::map<std::string, Sight> sights;
};

// `rounded` is measured against `exact`, the same spec and weights without the rounding; null: the baseline is that.
// Errors: kInvalidArgument where they have no prompt or no value in common, sketches of different seeds, or a rounded
// reference of another spec or other weights than what it is measured against: their difference is no rounding.
Result<Comparison> compare(const Pack& baseline, const Pack& tested, const Pack* rounded = nullptr,
                           const Pack* exact = nullptr);

Json comparison_json(const Comparison& comparison);
// A table for a terminal: layers and whatever is wrong; `all`: every value.
std::string comparison_text(const Comparison& comparison, bool all);
// One page without anything outside it: tables, and plots as SVG.
std::string comparison_html(const Comparison& comparison, const Pack& baseline, const Pack& tested);

}  // namespace firstlight::align
