// SPDX-License-Identifier: Apache-2.0
// A thread that runs one step at a time, so that the engine's own has its hands free meanwhile.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace firstlight::engine {

class StepRunner {
 public:
  StepRunner() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  // Begins `work`; the one before has been waited for.
  void start(std::function<Status()> work);
  Status wait();

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<Status()> work_;  // empty: nothing runs
  bool done_ = false;
  Status result_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace firstlight::engine
