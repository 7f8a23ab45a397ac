// SPDX-License-Identifier: Apache-2.0
// Outcomes held against each other: results within their limits, states to the last bit (those of recurrences, and what
// is computed on its way into a state, within limits too).
#pragma once

#include <string>

#include "judge/bounds.h"
#include "judge/run_case.h"

namespace firstlight::judge {

struct Judgement {
  std::string difference;  // what is further off than allowed; "": nothing
  double worst = 0;        // the largest error in units of what is allowed
};
Judgement judge_outcome(const Case& c, const Outcome& found, const Outcome& wanted, const Limits& limits);

}  // namespace firstlight::judge
