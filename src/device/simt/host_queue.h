// SPDX-License-Identifier: Apache-2.0
// A queue of the simt device: one host thread that does what is queued, in order. Shared by both queues' kinds of work;
// what a launch does is handed in as a function.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "device/device.h"

namespace firstlight::device {

// Runs functions in order on a thread of its own. After one fails, the others are passed over until finish() has told.
// Without a thread everything fails, every time.
class HostQueue {
 public:
  explicit HostQueue(std::function<Status()> is_usable);
  ~HostQueue();

  void push(std::function<Status()> work);
  Event record();
  void wait_for(const Event& event);
  Status finish();

 private:
  struct Point;
  struct Item {
    std::function<Status()> work;  // empty: a point
    std::shared_ptr<Point> point;
  };
  void serve();

  std::function<Status()> is_usable_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> items_;
  bool stopping_ = false;
  Status failed_;       // the serving thread's
  std::thread thread_;  // none where the system gave none: `failed_` says so
};

}  // namespace firstlight::device
