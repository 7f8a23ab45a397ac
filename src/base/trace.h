// SPDX-License-Identifier: Apache-2.0
// Step timers. Every step of work says its name and its class; a Trace adds the times up per class and, when asked to
// keep events, writes them in the Chrome trace format (load the file in Perfetto or chrome://tracing).
//
//   StepTimer timer(trace, "rms_norm", StepClass::kCompute);   // stops at the end of the scope
//
// A null trace costs one branch. Time spent in an inner timer of the same thread and trace is taken off the outer one's
// class total, so the totals of a thread never count a moment twice; the events keep their full length.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/step_class.h"

namespace firstlight {

// Monotonic time in nanoseconds; only differences mean something.
int64_t now_ns();

struct TraceEvent {
  std::string name;
  StepClass step_class = StepClass::kCompute;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int thread_idx = 0;  // 0, 1, … in the order in which threads first recorded anything in this process
};

struct ClassTotal {
  int64_t self_ns = 0;  // without inner steps
  int64_t count = 0;
};

struct TraceOptions {
  bool keep_events = false;
  size_t max_events = size_t{1} << 20;  // later ones are counted as dropped
};

// Safe to use from several threads.
class Trace {
 public:
  explicit Trace(TraceOptions options = {}) : Trace(options, now_ns()) {}
  Trace(TraceOptions options, int64_t origin_ns) : options_(options), origin_ns_(origin_ns) {}  // its time 0

  // A step that ended already. `self_ns` is the part of it that no inner step covers.
  void record(std::string_view name, StepClass step_class, int64_t start_ns, int64_t duration_ns, int64_t self_ns);

  ClassTotal total(StepClass step_class) const;
  std::vector<TraceEvent> events() const;
  int64_t num_dropped() const { return num_dropped_.load(std::memory_order_relaxed); }

  std::string chrome_trace() const;                          // one JSON document
  Status write_chrome_trace(const std::string& path) const;  // kInvalidArgument when the file cannot be written

 private:
  struct Cell {
    std::atomic<int64_t> self_ns{0};
    std::atomic<int64_t> count{0};
  };
  const TraceOptions options_;
  const int64_t origin_ns_;
  std::array<Cell, kNumStepClasses> totals_;
  std::atomic<int64_t> num_dropped_{0};
  mutable std::mutex mutex_;
  std::vector<TraceEvent> events_;
};

class StepTimer {
 public:
  // `name` must live as long as the timer.
  StepTimer(Trace* trace, std::string_view name, StepClass step_class);
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;
  ~StepTimer() { stop(); }

  // Ends the step early; a second call does nothing. Timers of one thread end in the reverse order of their start.
  void stop() noexcept;

 private:
  Trace* trace_;
  std::string_view name_;
  StepClass step_class_;
  int64_t start_ns_ = 0;
  int64_t inner_ns_ = 0;
  StepTimer* outer_ = nullptr;
};

}  // namespace firstlight
