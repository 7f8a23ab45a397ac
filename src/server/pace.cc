// SPDX-License-Identifier: Apache-2.0
#include "server/pace.h"

#include <algorithm>
#include <cmath>

namespace firstlight::server {

void Pace::ended(Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  ends_[num_ended_++ % kEnds] = now;
}

int Pace::retry_after_s(int64_t num_waiting, Clock::time_point now) const {
  constexpr double kMost = 60;
  const std::scoped_lock lock(mutex_);
  size_t count = 0;
  Clock::time_point oldest = now;
  for (size_t i = 0; i < std::min(num_ended_, kEnds); ++i) {
    if (now - ends_[i] > std::chrono::duration<double>(kMost)) continue;
    ++count;
    oldest = std::min(oldest, ends_[i]);
  }
  const double span = std::chrono::duration<double>(now - oldest).count();
  if (count == 0 || num_waiting <= 0) return 1;
  const double seconds = static_cast<double>(num_waiting) * span / static_cast<double>(count);
  return static_cast<int>(std::clamp(std::ceil(seconds), 1.0, kMost));
}

}  // namespace firstlight::server
