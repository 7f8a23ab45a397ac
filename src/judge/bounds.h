// SPDX-License-Identifier: Apache-2.0
// What each element of a case's results may be: the bounds of docs/numerics.md, worked out from the case's own
// operands.
#pragma once

#include "catalog/kernel_row.h"
#include "judge/ranges.h"
#include "judge/run_case.h"

namespace firstlight::judge {

using Ranges = std::vector<std::vector<Range>>;

struct Limits {
  Ranges results;  // per result, row-major; empty where values must be equal
  Ranges state;    // per page, of the component that a recurrence updates or of all of it; empty: equal
};

// A page of a log as numbers of the type that its first component has.
std::vector<double> page_values(const Case& c, const std::vector<std::byte>& page);

// By the bound that the case states (products: derived per element and mode).
Limits stated_limits(const Case& c, const Outcome& wanted, catalog::ComputeMode mode);

// By the operator's bound, for values of any size (worked out where the case states none). `on_device`: sums in
// float32, functions as accurate as OpenCL asks for, subnormal numbers may be flushed.
Limits derived_limits(const Case& c, const Outcome& wanted, catalog::ComputeMode mode, bool on_device);

}  // namespace firstlight::judge
