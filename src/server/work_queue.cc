// SPDX-License-Identifier: Apache-2.0
#include "server/work_queue.h"

#include <utility>

namespace firstlight::server {

WorkQueue::WorkQueue(int num_threads, size_t max_pending) : max_pending_(max_pending) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  }
}

WorkQueue::~WorkQueue() {
  for (auto& thread : threads_) thread.request_stop();
  threads_.clear();  // joins
}

bool WorkQueue::post(std::function<void()> work) {
  if (threads_.empty()) {
    work();
    return true;
  }
  {
    const std::scoped_lock lock(mutex_);
    if (pending_.size() >= max_pending_) return false;
    pending_.push_back(std::move(work));
  }
  filled_.notify_one();
  return true;
}

void WorkQueue::run(const std::stop_token& stop) {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      if (!filled_.wait(lock, stop, [this] { return !pending_.empty(); }) || stop.stop_requested()) return;
      work = std::move(pending_.front());
      pending_.pop_front();
    }
    work();
  }
}

}  // namespace firstlight::server
