// SPDX-License-Identifier: Apache-2.0
// Where a float32 evaluation may end, as intervals: each term of a formula rounded once, functions within their stated
// accuracy. What docs/numerics.md calls the bound "by its formula", worked out per element.
#pragma once

#include <span>

#include "ops/expression.h"

namespace firstlight::judge {

struct Range {
  double low = 0, high = 0;  // both NaN: the value is NaN
  bool may_be_nan = false;
  bool is_finite = true;  // false: NaN or infinite, whichever
  bool holds(double value) const;
};

Range exactly(double value);
Range anything();
Range no_number();  // NaN or infinite, whichever
Range joined(const Range& a, const Range& b);
// Made wider by relative * |value| + absolute on both sides; what passes the largest float32 may be infinite.
Range widened(Range range, double relative, double absolute);

// `on_device`: functions as accurate as OpenCL asks for, subnormal numbers may be flushed.
Range range_of(const ops::Expression& expression, std::span<const Range> inputs, bool on_device);

}  // namespace firstlight::judge
