// SPDX-License-Identifier: Apache-2.0
// What a plan asks of the hardware for one batch: kernel launches and bytes moved, layer by layer. For seeing what
// fusion is worth.
#pragma once

#include <map>

#include "plan/plan.h"

namespace firstlight::compiler {

struct Traffic {
  int64_t launches = 0;
  int64_t activation_bytes = 0;  // read and written, of results and the batch's inputs; states not counted
  int64_t weight_bytes = 0;      // read

  Traffic& operator+=(const Traffic& other);
};

// By the number behind "layers." in a step's label; -1: outside of layers. A table that rows are gathered from counts
// for the rows read. A step of experts is one launch for all that the batch can choose, each moving its share of the
// rows and its own weights; spreading and collecting rows are a launch each.
std::map<int, Traffic> traffic_by_layer(const plan::Plan& plan, const tensor::SymbolValues& values);

}  // namespace firstlight::compiler
