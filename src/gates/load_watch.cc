// SPDX-License-Identifier: Apache-2.0
#include "gates/load_watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace firstlight::gates {

CoreTime parse_core_time(std::string_view stat, double ticks_per_second) {
  std::istringstream line{std::string(stat)};
  std::string name;
  line >> name;
  if (name != "cpu" || !(ticks_per_second > 0)) return {};
  constexpr int kIdle = 3, kWaiting = 4, kFields = 8;  // user nice system idle iowait irq softirq steal
  CoreTime time;
  double ticks = 0;
  for (int field = 0; field < kFields && line >> ticks; ++field) {
    time.total_s += ticks / ticks_per_second;
    if (field != kIdle && field != kWaiting) time.busy_s += ticks / ticks_per_second;
  }
  return time;
}

CoreTime core_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  CoreTime time = parse_core_time(line, static_cast<double>(::sysconf(_SC_CLK_TCK)));
  rusage own{};
  if (::getrusage(RUSAGE_SELF, &own) != 0) return {};
  const auto seconds = [](const timeval& value) {
    return static_cast<double>(value.tv_sec) + static_cast<double>(value.tv_usec) * 1e-6;
  };
  time.own_s = seconds(own.ru_utime) + seconds(own.ru_stime);
  return time;
}

double others_share(const CoreTime& before, const CoreTime& after) {
  const double total = after.total_s - before.total_s;
  if (!(total > 0)) return 0;
  const double others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s);
  return std::clamp(others / total, 0.0, 1.0);
}

}  // namespace firstlight::gates
