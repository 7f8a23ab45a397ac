// SPDX-License-Identifier: Apache-2.0
#include "engine/step_runner.h"

#include <exception>
#include <utility>

#include "base/check.h"

namespace firstlight::engine {

void StepRunner::start(std::function<Status()> work) {
  const std::scoped_lock lock(mutex_);
  FL_CHECK(!work_);
  work_ = std::move(work);
  done_ = false;
  changed_.notify_all();
}

Status StepRunner::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_; });
  work_ = nullptr;
  done_ = false;
  return std::exchange(result_, ok_status());
}

void StepRunner::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return work_ && !done_; })) {
    lock.unlock();
    Status result;
    try {
      result = work_();
    } catch (const std::exception& error) {  // memory running out, most likely: the waiting thread must hear of it
      result = internal_error(std::string("a step ended with an exception: ") + error.what());
    }
    lock.lock();
    result_ = std::move(result);
    done_ = true;
    changed_.notify_all();
  }
}

}  // namespace firstlight::engine
