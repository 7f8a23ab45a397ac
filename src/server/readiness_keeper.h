// SPDX-License-Identifier: Apache-2.0
// Keeps the readiness true: checks at the start and again after every fault, and says "ready" only when a check that
// began after the last fault has passed. A check that fails is repeated after 1, 2, 4, … and at most 60 seconds, for as
// long as the server lives: a device may come back, and until then /ready says what is wrong.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/metrics.h"
#include "base/status.h"
#include "server/readiness.h"

namespace firstlight::server {

struct ReadinessPolicy {
  double first_pause_s = 1;
  double longest_pause_s = 60;
};

class ReadinessKeeper {
 public:
  // `check` reproduces the golden prompt; it may take its time. `readiness` and `log` (may be null) must outlive it.
  ReadinessKeeper(Readiness& readiness, std::function<Status()> check, const ReadinessPolicy& policy, Metrics* metrics,
                  const Log* log);
  ~ReadinessKeeper();  // waits for a check that runs

 private:
  void run(const std::stop_token& stop);
  void pause(double seconds, const std::stop_token& stop);

  Readiness& readiness_;
  std::function<Status()> check_;
  ReadinessPolicy policy_;
  Counter checks_passed_, checks_failed_;
  const Log* log_;
  std::mutex mutex_;
  std::condition_variable_any never_;  // a sleep that a stop ends
  std::jthread thread_;                // last: it uses the others
};

}  // namespace firstlight::server
