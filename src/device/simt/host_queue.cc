// SPDX-License-Identifier: Apache-2.0
#include "device/simt/host_queue.h"

#include <utility>

#include "base/start_thread.h"

namespace firstlight::device {

struct HostQueue::Point final : Event::State {
  Status wait() override {
    std::unique_lock lock(mutex);
    happened.wait(lock, [&] { return is_done; });
    return status;
  }
  bool done() override {
    const std::lock_guard lock(mutex);
    return is_done;
  }
  void happen(const Status& with) {
    const std::lock_guard lock(mutex);
    status = with;
    is_done = true;
    happened.notify_all();
  }

  bool clears = false;  // of finish(): the queue starts afresh behind it
  std::mutex mutex;
  std::condition_variable happened;
  bool is_done = false;
  Status status;
};

HostQueue::HostQueue(std::function<Status()> is_usable) : is_usable_(std::move(is_usable)) {
  auto started = start_thread("a queue's thread", [this] { serve(); });
  if (started.ok()) {
    thread_ = *std::move(started);
  } else {
    failed_ = started.status();
  }
}

HostQueue::~HostQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void HostQueue::serve() {
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !items_.empty(); });
      if (items_.empty()) return;
      item = std::move(items_.front());
      items_.pop_front();
    }
    Status usable = is_usable_();
    if (!usable.ok()) failed_ = std::move(usable);
    if (item.point == nullptr) {
      if (failed_.ok()) failed_ = item.work();
      continue;
    }
    const Status status = failed_;
    if (item.point->clears) failed_ = ok_status();
    item.point->happen(status);
  }
}

void HostQueue::push(std::function<Status()> work) {
  if (!thread_.joinable()) return;
  const std::lock_guard lock(mutex_);
  items_.push_back({std::move(work), nullptr});
  wake_.notify_one();
}

Event HostQueue::record() {
  auto point = std::make_shared<Point>();
  if (!thread_.joinable()) {
    point->happen(failed_);
    return Event(point);
  }
  const std::lock_guard lock(mutex_);
  items_.push_back({nullptr, point});
  wake_.notify_one();
  return Event(point);
}

void HostQueue::wait_for(const Event& event) {
  push([event] { return event.wait(); });
}

Status HostQueue::finish() {
  if (!thread_.joinable()) return failed_;
  auto point = std::make_shared<Point>();
  point->clears = true;
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({nullptr, point});
    wake_.notify_one();
  }
  return point->wait();
}

}  // namespace firstlight::device
