// SPDX-License-Identifier: Apache-2.0
// Two packs, value by value: how far apart, and whether rounding explains it. With a third one (the reference, its
// operands rounded as the tested side rounds them) honest rounding is measured instead of bounded. docs/golden_pack.md
// derives what is allowed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align/identity.h"
#include "align/pack.h"
#include "align/pair.h"
#include "base/json_fwd.h"

namespace firstlight::align {

struct ValueComparison {
  TapInfo info;
  Distance found;                    // tested against baseline
  std::optional<Distance> rounding;  // rounded reference against baseline
  std::optional<Distance> beyond;    // tested against rounded reference: what its rounding does not explain
  double allowed = 0;                // of rel_l2, or of the mismatch
  bool passed = true;
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
