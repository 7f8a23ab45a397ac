// SPDX-License-Identifier: Apache-2.0
// How fast requests end, measured, and from it how long a client should wait before it asks again (Retry-After).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace firstlight::server {

// Safe to use from any thread.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  void ended(Clock::time_point now);  // one request more

  // The time in which as many requests as wait now would end at the rate of the last 64 (or of those of the last
  // minute), in whole seconds: 1 at least, 60 at most, and 1 where nothing was measured.
  int retry_after_s(int64_t num_waiting, Clock::time_point now) const;

 private:
  static constexpr size_t kEnds = 64;
  mutable std::mutex mutex_;
  std::array<Clock::time_point, kEnds> ends_{};  // a ring
  size_t num_ended_ = 0;
};

}  // namespace firstlight::server
