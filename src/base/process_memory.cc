// SPDX-License-Identifier: Apache-2.0
#include "base/process_memory.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace firstlight {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const auto kilobytes = [&] { return std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10) * 1024; };
    if (line.starts_with("VmRSS:")) memory.resident_bytes = kilobytes();
    if (line.starts_with("VmHWM:")) memory.peak_bytes = kilobytes();
  }
  return memory;
}

}  // namespace firstlight
