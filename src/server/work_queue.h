// SPDX-License-Identifier: Apache-2.0
// A few threads for work that would hold up the network ones: reading bodies, rendering templates, tokenising. The
// queue has an end; what does not fit is refused, so that load turns into 503 and not into memory.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace firstlight::server {

class WorkQueue {
 public:
  // No threads: work runs inside post() (tests).
  WorkQueue(int num_threads, size_t max_pending);
  ~WorkQueue();  // work that has not begun is dropped
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // False when max_pending pieces wait already.
  bool post(std::function<void()> work);

 private:
  void run(const std::stop_token& stop);

  size_t max_pending_;
  std::mutex mutex_;
  std::condition_variable_any filled_;
  std::deque<std::function<void()>> pending_;
  std::vector<std::jthread> threads_;
};

}  // namespace firstlight::server
