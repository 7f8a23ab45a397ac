// SPDX-License-Identifier: Apache-2.0
// A tensor as lines along one axis: [outer, n, inner]. What reductions, running sums and paddings walk over.
#pragma once

#include "ops/infer.h"
#include "tensor/view.h"

namespace firstlight::kernels {

struct AxisLines {
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;
};

inline AxisLines axis_lines(const tensor::View& x, int64_t axis) {
  AxisLines lines;
  const int at = ops::resolve_axis(axis, x.rank);
  for (int i = 0; i < at; ++i) lines.outer *= x.dim(i);
  lines.n = x.dim(at);
  for (int i = at + 1; i < x.rank; ++i) lines.inner *= x.dim(i);
  return lines;
}

}  // namespace firstlight::kernels
