// SPDX-License-Identifier: Apache-2.0
// How much of the cores other processes took for a while: what was measured meanwhile is no measure of this one.
#pragma once

#include <string_view>

namespace firstlight::gates {

struct CoreTime {
  double busy_s = 0;   // of all cores, all processes
  double total_s = 0;  // and idle
  double own_s = 0;    // of this process
};

// Of the line "cpu ..." of /proc/stat; zeros where it is none.
CoreTime parse_core_time(std::string_view stat, double ticks_per_second);
CoreTime core_time();

// Share of all cores that others took between the two; 0: the system does not tell.
double others_share(const CoreTime& before, const CoreTime& after);

}  // namespace firstlight::gates
