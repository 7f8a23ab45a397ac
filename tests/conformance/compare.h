// SPDX-License-Identifier: Apache-2.0
// Outcomes held against each other: results within their limits, states to the last bit (those of recurrences, and what
// is computed on its way into a state, within limits too).
#pragma once

#include <string>

#include "catalog/kernel_row.h"
#include "case.h"
#include "judge/verdict.h"

namespace firstlight::conformance {

// The first element that is further off than allowed; "" when there is none. `tolerance`: per element, in place of the
// bound; may be null.
std::string first_difference(const std::vector<double>& values, const std::vector<double>& wanted, const Bound& bound,
                             const std::vector<double>* tolerance);

// Fails the running test where the outcomes differ; the worst error otherwise.
double expect_equal(const Case& c, const Outcome& found, const Outcome& wanted, catalog::ComputeMode mode,
                    const std::string& where);

}  // namespace firstlight::conformance
