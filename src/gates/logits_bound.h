// SPDX-License-Identifier: Apache-2.0
// How far a plan's logits may be from the reference backend's: estimated by how it computes, or measured by what the
// same rounding does to the reference (docs/numerics.md, "Whole models").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gates/golden_row.h"
#include "plan/plan.h"

namespace firstlight::gates {

// Relative L2 distance of one row of logits that rounding alone explains; `other` is the rounding of one product on the
// side that it is compared with.
double logits_bound(const plan::Plan& plan, double other = 0);

// What rounding does to logits: root mean squares over rows.
struct LogitsRounding {
  double rel_l2 = 0;                 // of a row's distance
  double kl = 0;                     // mean divergence
  double surprise = 0;               // of the change of -log p of the next token
  double worst = 0;                  // distance of a row
  double tail = 1.5, kl_tail = 1.5;  // deviation of one row's squared distance and divergence, in their means
  double turned = 0;                 // share of rows whose routing it turned
  double floor = 0;                  // what other orders of summation leave
  bool measured = false;
};

// By how the plan computes; `rows` say how far logits spread, `other` as above.
LogitsRounding estimated_rounding(const plan::Plan& plan, double other, std::span<const RowResult> rows);
// From a rounded reference beside the exact one. `routed`: the model has experts, whose choice rounding may turn; rows
// where it seems to have done so are counted apart.
LogitsRounding measured_rounding(const plan::Plan& plan, std::span<const RowResult> rows, bool routed);
// `rounding` where the side it is compared with rounds as well: squares of independent errors add up.
LogitsRounding with_other(LogitsRounding rounding, const plan::Plan& plan, double other,
                          std::span<const RowResult> rows);

// One prompt on one path, in figures.
struct PathFigures {
  int64_t rows = 0;
  double rel_l2 = 0, worst_rel_l2 = 0;  // root mean square, worst; NaN where one is
  int64_t worst_position = -1;
  double max_abs = 0, cosine = 1;  // worst
  double kl = 0, worst_kl = 0;     // mean, worst
  double top5 = 1;                 // mean
  int64_t best_equal = 0;
  int64_t best_wrong = 0;  // another best token where the margin decides
  int64_t beyond = 0;      // rows further away than a row may be
  int64_t scored = 0;
  double log_perplexity = 0, found_log_perplexity = 0;  // over the scored rows
};

struct LogitsTolerance {
  double row = 0;             // rel_l2 of a row
  double rows = 0;            // root mean square over rows
  double kl = 0;              // mean
  double log_perplexity = 0;  // difference
  double margin = 0;          // of a best token, in root mean squares of the row, from which on it decides
  double beyond = 0;          // rows that may be beyond `row`: those whose routing rounding turns
};

// For these rows of one prompt.
LogitsTolerance logits_tolerance(const LogitsRounding& rounding, std::span<const RowResult> rows, bool routed);

PathFigures figures_of(std::span<const RowResult> rows, const LogitsTolerance& tolerance);

// What is wrong, in words; empty: nothing.
std::string fault_of(const PathFigures& figures, const LogitsTolerance& tolerance);

}  // namespace firstlight::gates
