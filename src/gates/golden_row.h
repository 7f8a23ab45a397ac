// SPDX-License-Identifier: Apache-2.0
// One row of logits that is known, whole or as a golden pack has it (sketch, norm, largest), and how another one
// compares with it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "align/compare.h"

namespace firstlight::gates {

// What is known of the logits at one position.
struct GoldenRow {
  int64_t position = 0;
  std::vector<float> logits;      // all of them; empty: norm and sketch tell the distance
  double norm = 0;                // L2, of all
  std::vector<float> sketch;      // align/sketch.h
  std::vector<int32_t> top_ids;   // the largest, descending
  std::vector<float> top_logits;  // their logits
  double log_sum_exp = 0;         // over all
};

// Knows all of `logits`.
GoldenRow whole_row(int64_t position, std::span<const float> logits);

// One row found beside one wanted.
struct RowResult {
  int64_t position = 0;
  double rel_l2 = 0;   // |found - wanted| / |wanted|; of sketches an estimate
  double max_abs = 0;  // of rows known whole
  double cosine = 1;
  double kl = 0;                            // of the wanted distribution from the found one; else at least that
  double surprise = 0, found_surprise = 0;  // -log p of the token that follows
  bool scored = false;                      // whether surprise is known
  int32_t best = -1, found_best = -1;
  double margin = 0;  // of the wanted best over its second, in root mean squares of the row
  double top5 = 1;    // share of the wanted best five among the found five
  double spread = 0;  // standard deviation of the wanted logits; of sketches their root mean square
  bool estimated = false;
  double uncertain = 0;        // relative standard deviation of an estimated rel_l2
  align::UlpHistogram ulps{};  // of rows known whole
};

// `next`: the token that follows, -1: none. `seed`: of the golden's sketches. `logits` has the golden's vocabulary.
RowResult compare_row(std::span<const float> logits, const GoldenRow& wanted, int32_t next, uint64_t seed);

}  // namespace firstlight::gates
