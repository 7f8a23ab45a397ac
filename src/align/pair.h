// SPDX-License-Identifier: Apache-2.0
// Two packs side by side, value by value: how far apart their rows are, measured on whole rows where both kept them and
// on sketches elsewhere, and how far rounding may take them. What compare and vote judge by; docs/golden_pack.md
// derives the numbers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "align/pack.h"

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
  bool estimated = true;  // from sketches, or (sketches of other seeds) from few rows; false: every row was kept
  bool finite = true;     // both sides have the same number of values that are not finite
  int64_t rows = 0;       // that were measured; 0: the two have nothing in common there
};

struct LogitsComparison {
  int64_t rows = 0;
  double top1 = 1, top5 = 1;  // share of rows with the same best token; of the best five that both have
  double kl_bound = 0;        // mean over the rows: at least that far apart, from the largest logits
  double kl_worst = 0;        // of the rows kept whole, exact
  int64_t kl_rows = 0;
  bool greedy_equal = true;  // as far as both have it
};

// What one recording's arithmetic rounds, as its origin says ("rounding", "products_per_layer"); float32 where it says
// nothing.
struct PackRounding {
  double step = 3e-8;
  double products_per_layer = 9;
  bool is_float32() const { return step < 1e-6; }
};
PackRounding rounding_of(const Pack& pack);

// The largest relative L2 distance that honest rounding explains behind so many layers, of two recordings whose errors
// are independent: 4 sqrt(layers (u_a^2 p_a + u_b^2 p_b)), at least what float32 may differ by (tolerance::explained).
// `noise`: that of float32, where it was measured (TapInfo::noise).
double allowed_distance(const PackRounding& a, const PackRounding& b, int64_t layers, double noise = 0);

std::optional<size_t> find_tap(const Pack& pack, const std::string& name);

// Both packs must outlive it. Values are to be asked for in the order they are computed: rows behind a routing decision
// that differs are left out from there on.
class PackPair {
 public:
  // `only`: prompts to look at; null: all that the two have in common. Packs whose sketches have different seeds are
  // measured on the rows that both kept whole.
  PackPair(const Pack& a, const Pack& b, const std::set<std::vector<int32_t>>* only = nullptr);

  // Of a's and of b's.
  const std::vector<std::pair<size_t, size_t>>& prompts() const { return prompts_; }
  int64_t num_turned() const;
  // Counts the rows behind turned decisions again: more of them turned than rounding explains.
  void forget_turned();

  // The tap of b with the name and the shape of one of a's.
  std::optional<size_t> counterpart(size_t tap) const;
  Distance distance(size_t tap_a, size_t tap_b);
  LogitsComparison logits(std::optional<size_t> tap_a, std::optional<size_t> tap_b) const;

 private:
  using RowSet = std::set<int64_t>;
  struct Totals {
    double difference = 0, norm_a = 0, norm_b = 0;
    int64_t rows = 0;
  };

  static void compare_integers(int64_t width, const TapRecord& a, const TapRecord& b, RowSet& turned, int64_t& rows,
                               int64_t& mismatched);
  void compare_floats(const TapInfo& info, const TapRecord& a, const TapRecord& b, const RowSet& turned,
                      Distance& out) const;
  static void compare_kept(int64_t width, const TapRecord& a, const TapRecord& b, const RowSet& turned, Totals* totals,
                           Distance& out);
  void compare_sketches(const TapRecord& a, const TapRecord& b, const RowSet& turned, Totals& totals,
                        Distance& out) const;
  static void note_row(const TapRecord& a, int64_t row, double difference, double norm, Distance& out);

  const Pack& a_;
  const Pack& b_;
  std::map<std::string, size_t> tap_of_b_;
  std::vector<std::pair<size_t, size_t>> prompts_;
  std::vector<RowSet> turned_;  // per common prompt: rows behind a routing decision that turned
};

}  // namespace firstlight::align
