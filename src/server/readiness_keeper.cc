// SPDX-License-Identifier: Apache-2.0
#include "server/readiness_keeper.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace firstlight::server {

ReadinessKeeper::ReadinessKeeper(Readiness& readiness, std::function<Status()> check, const ReadinessPolicy& policy,
                                 Metrics* metrics, const Log* log)
    : readiness_(readiness), check_(std::move(check)), policy_(policy), log_(log) {
  if (metrics != nullptr) {
    const auto checks = [&](const char* result) {
      return metrics->counter("firstlight_golden_checks_total", "attempts to reproduce the golden prompt",
                              {{"result", result}});
    };
    checks_passed_ = checks("passed");
    checks_failed_ = checks("failed");
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

ReadinessKeeper::~ReadinessKeeper() = default;

void ReadinessKeeper::run(const std::stop_token& stop) {
  double seconds = policy_.first_pause_s;
  while (!stop.stop_requested() && !readiness_.is_lost()) {
    const uint64_t num_faults = readiness_.num_faults();
    const Status status = check_();
    (status.ok() ? checks_passed_ : checks_failed_).add();
    if (!status.ok()) {
      readiness_.set_not_ready(status.message());
      log_error(log_, "not ready: " + status.message() + "; the next check is in " +
                          std::to_string(static_cast<int64_t>(seconds)) + " s");
      pause(seconds, stop);
      seconds = std::min(2 * seconds, policy_.longest_pause_s);
      continue;
    }
    seconds = policy_.first_pause_s;
    if (!readiness_.set_ready_since(num_faults)) continue;
    log_info(log_, "ready: the golden prompt is reproduced");
    if (!readiness_.wait_for_fault(num_faults, stop)) return;
    log_error(log_, "not ready: " + readiness_.reason() + "; the golden prompt is checked again");
  }
}

void ReadinessKeeper::pause(double seconds, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  never_.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
}

}  // namespace firstlight::server
