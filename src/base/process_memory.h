// SPDX-License-Identifier: Apache-2.0
// What this process takes of memory, as the system counts it.
#pragma once

#include <cstdint>

namespace firstlight {

struct ProcessMemory {
  int64_t resident_bytes = 0;  // now: its own pages and the pages of files that it has mapped and read
  int64_t peak_bytes = 0;      // the most so far
};

// Zeros where the system does not say.
ProcessMemory process_memory();

}  // namespace firstlight
