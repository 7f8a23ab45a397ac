// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

#include <chrono>

#include "base/file_map.h"
#include "base/json.h"

namespace firstlight {
namespace {

// The innermost running timer of this thread: how a timer finds the one around it.
thread_local StepTimer* innermost = nullptr;

int this_thread_idx() {
  static std::atomic<int> next{0};
  thread_local const int idx = next.fetch_add(1, std::memory_order_relaxed);
  return idx;
}

}  // namespace

std::string_view step_class_name(StepClass step_class) {
  switch (step_class) {
    case StepClass::kCompute:
      return "compute";
    case StepClass::kMemory:
      return "memory";
    case StepClass::kCommunication:
      return "communication";
    case StepClass::kIo:
      return "io";
  }
  return "unknown";
}

int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void Trace::record(std::string_view name, StepClass step_class, int64_t start_ns, int64_t duration_ns,
                   int64_t self_ns) {
  Cell& cell = totals_[static_cast<size_t>(step_class)];
  cell.self_ns.fetch_add(self_ns, std::memory_order_relaxed);
  cell.count.fetch_add(1, std::memory_order_relaxed);
  if (!options_.keep_events) return;
  TraceEvent event{std::string(name), step_class, start_ns, duration_ns, this_thread_idx()};
  const std::lock_guard lock(mutex_);
  if (events_.size() < options_.max_events) {
    events_.push_back(std::move(event));
  } else {
    num_dropped_.fetch_add(1, std::memory_order_relaxed);
  }
}

ClassTotal Trace::total(StepClass step_class) const {
  const Cell& cell = totals_[static_cast<size_t>(step_class)];
  return {cell.self_ns.load(std::memory_order_relaxed), cell.count.load(std::memory_order_relaxed)};
}

std::vector<TraceEvent> Trace::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::string Trace::chrome_trace() const {
  Json rows = Json::array();
  for (const TraceEvent& event : events()) {
    rows.push_back({{"name", event.name},
                    {"cat", step_class_name(event.step_class)},
                    {"ph", "X"},
                    {"pid", 0},
                    {"tid", event.thread_idx},
                    {"ts", static_cast<double>(event.start_ns - origin_ns_) / 1e3},
                    {"dur", static_cast<double>(event.duration_ns) / 1e3}});
  }
  Json document;
  document["displayTimeUnit"] = "ms";
  document["otherData"] = {{"dropped_events", num_dropped()}};
  document["traceEvents"] = std::move(rows);
  return dump_json(document);
}

Status Trace::write_chrome_trace(const std::string& path) const { return write_file(path, chrome_trace()); }

StepTimer::StepTimer(Trace* trace, std::string_view name, StepClass step_class)
    : trace_(trace), name_(name), step_class_(step_class) {
  if (trace_ == nullptr) return;
  outer_ = innermost;
  innermost = this;
  start_ns_ = now_ns();
}

void StepTimer::stop() noexcept {
  if (trace_ == nullptr) return;
  const int64_t duration_ns = now_ns() - start_ns_;
  FL_DCHECK(innermost == this);
  innermost = outer_;
  if (outer_ != nullptr && outer_->trace_ == trace_) outer_->inner_ns_ += duration_ns;
  trace_->record(name_, step_class_, start_ns_, duration_ns, duration_ns - inner_ns_);
  trace_ = nullptr;
}

}  // namespace firstlight
