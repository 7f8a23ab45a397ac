// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formulas.h"

namespace firstlight::conformance {

using catalog::ComputeMode;

namespace {

bool same_kind(double found, double wanted) {
  if (std::isnan(wanted)) return std::isnan(found);
  return std::isinf(wanted) ? found == wanted : std::isfinite(found);
}

}  // namespace

std::string first_difference(const std::vector<double>& values, const std::vector<double>& wanted, const Bound& bound,
                             const std::vector<double>* tolerance) {
  if (values.size() != wanted.size()) return "sizes differ";
  for (size_t i = 0; i < values.size(); ++i) {
    const double allowed =
        tolerance != nullptr ? (*tolerance)[i] : bound.absolute + bound.relative * std::fabs(wanted[i]);
    const bool fits =
        same_kind(values[i], wanted[i]) && (!std::isfinite(wanted[i]) || std::fabs(values[i] - wanted[i]) <= allowed);
    if (fits) continue;
    return "element " + std::to_string(i) + ": found " + ops::exact_decimal(values[i]) + ", wanted " +
           ops::exact_decimal(wanted[i]) + " within " + ops::exact_decimal(allowed);
  }
  return "";
}

double expect_equal(const Case& c, const Outcome& found, const Outcome& wanted, ComputeMode mode,
                    const std::string& where) {
  const Judgement judgement = judge_outcome(c, found, wanted, stated_limits(c, wanted, mode));
  EXPECT_EQ(judgement.difference, "") << where;
  return judgement.worst;
}

}  // namespace firstlight::conformance
