// SPDX-License-Identifier: Apache-2.0
// Matrix products in float64, and how far off each may be in a compute mode (docs/numerics.md derives it).
#pragma once

#include <utility>
#include <vector>

#include "catalog/kernel_row.h"
#include "judge/case.h"

namespace firstlight::judge {

using Values = std::vector<std::vector<double>>;  // per result, row-major

// Per product before an epilogue: values, and how far off each may be.
std::pair<Values, Values> plain_products(const Case& c, catalog::ComputeMode mode);
// Behind the epilogue: values, and how far off they may be.
std::pair<Values, Values> products(const Case& c, catalog::ComputeMode mode);
Values product_tolerance(const Case& c, catalog::ComputeMode mode);

}  // namespace firstlight::judge
