// SPDX-License-Identifier: Apache-2.0
// The weights of interp2d along one axis; shared by its bodies.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attributes.h"

namespace firstlight::kernels {

// The neighbours of one element of the result along an axis, at least one.
struct InterpTaps {
  std::vector<int64_t> at;
  std::vector<double> weight;
};

// Of every element of an axis that is resized from `from` to `to`, as interp2d's attributes say.
std::vector<InterpTaps> interp_taps(const ops::Attributes& attributes, int64_t from, int64_t to);

}  // namespace firstlight::kernels
