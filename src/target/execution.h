// SPDX-License-Identifier: Apache-2.0
// How steps reach the hardware, as far as the compiler's choices go: what its fusion rules read.
#pragma once

#include "target/device_target.h"

namespace firstlight::target {

struct Execution {
  // Units (blocks of a GPU's grid, say) that work on one step side by side, each preparing its input for itself; 0 for
  // CPUs, whose workers share what one of them has prepared.
  int wide_units = 0;
};

inline Execution execution_of(const DeviceTarget& device) { return {.wide_units = device.compute_units}; }

}  // namespace firstlight::target
