// SPDX-License-Identifier: Apache-2.0
// How many threads of a pool are worth having while other processes use the same cores. A run is as slow as its slowest
// thread, so a thread that has its core half of the time halves the speed of all; the share of time that threads are
// kept waiting for a core says so (the kernel's run delay, /proc/self/task/TID/schedstat).
#pragma once

#include <cstdint>
#include <span>

namespace firstlight {

// The decision alone: no clock, no files. All times in nanoseconds.
class CoreShare {
 public:
  // A look at this many nanoseconds of running at least.
  static constexpr int64_t kWindow = 20'000'000;
  // Fewer threads are tried with all of them again after this long, twice as long after each vain try, up to the most.
  static constexpr int64_t kFirstRetry = 200'000'000, kLastRetry = 3'200'000'000;

  explicit CoreShare(int num_threads) : most_(num_threads), active_(num_threads) {}

  int active() const { return active_; }

  // `ran`: time inside runs since the last look; `delays`: what each of the active threads was kept waiting for a core
  // in it; `now`: the clock. True when active() has changed: threads are left out after two bad looks in a row.
  bool look(int64_t ran, std::span<const int64_t> delays, int64_t now);

 private:
  int most_, active_;
  bool retries_ = false;   // all are in again to see whether they are left alone now
  bool suspects_ = false;  // the last look was a bad one; one alone may be a passing burst
  int64_t retry_after_ = kFirstRetry;
  int64_t retry_at_ = 0;
};

// Nanoseconds that a thread of this process has waited for a core since it began; -1 where the system does not say.
int64_t run_delay_ns(int thread_id);

}  // namespace firstlight
