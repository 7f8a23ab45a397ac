// SPDX-License-Identifier: Apache-2.0
// What this machine's CPU is and how much of it this process may use. Reads the CPU's own identification, /proc, /sys
// and the control groups; nothing is measured here (device/cpu/measure.h).
#pragma once

#include <string>

#include "target/target.h"

namespace firstlight::device {

// The cores of the affinity mask, cut by the control groups' CPU quota; caches of the first core; memory cut by the
// control groups' limits. `root` is put before every path read, for tests.
target::CpuTarget detect_cpu(const std::string& root = "");

}  // namespace firstlight::device
