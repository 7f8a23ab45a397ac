// SPDX-License-Identifier: Apache-2.0
// How far a plan's logits may be from the reference backend's, by how it computes (docs/numerics.md, "Whole models").
#pragma once

#include <span>
#include <string>

#include "plan/plan.h"

namespace firstlight::gates {

// Relative L2 distance of one row of logits that rounding alone explains.
double logits_bound(const plan::Plan& plan);

// How a row compares with the one it should be.
struct RowComparison {
  double rel_l2 = 0;   // |a - b| / |b|
  double max_abs = 0;  // max |a_i - b_i|
  double cosine = 1;
  bool best_equal = true;    // the same likeliest token
  bool best_decided = true;  // b's best exceeds its second by more than 4 * bound * rms(b)
};
RowComparison compare_rows(std::span<const float> found, std::span<const float> wanted, double bound);

}  // namespace firstlight::gates
