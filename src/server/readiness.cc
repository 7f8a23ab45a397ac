// SPDX-License-Identifier: Apache-2.0
#include "server/readiness.h"

#include <utility>

namespace firstlight::server {

void Readiness::set_ready() {
  const std::scoped_lock lock(mutex_);
  if (!lost_) reason_.clear();
}

bool Readiness::set_ready_since(uint64_t num_faults) {
  const std::scoped_lock lock(mutex_);
  if (lost_ || num_faults_ != num_faults) return false;
  reason_.clear();
  return true;
}

void Readiness::set_not_ready(std::string reason) {
  const std::scoped_lock lock(mutex_);
  if (!lost_) reason_ = reason.empty() ? "not ready" : std::move(reason);
}

void Readiness::fault(std::string reason) {
  {
    const std::scoped_lock lock(mutex_);
    ++num_faults_;
    if (!lost_) reason_ = reason.empty() ? "a fault" : std::move(reason);
  }
  faulted_.notify_all();
}

void Readiness::lose(std::string reason) {
  {
    const std::scoped_lock lock(mutex_);
    ++num_faults_;
    if (!lost_) reason_ = reason.empty() ? "lost" : std::move(reason);
    lost_ = true;
  }
  faulted_.notify_all();
}

void Readiness::drain() {
  const std::scoped_lock lock(mutex_);
  draining_ = true;
}

bool Readiness::is_ready() const {
  const std::scoped_lock lock(mutex_);
  return reason_.empty() && !draining_;
}

bool Readiness::is_lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

bool Readiness::is_draining() const {
  const std::scoped_lock lock(mutex_);
  return draining_;
}

std::string Readiness::reason() const {
  const std::scoped_lock lock(mutex_);
  return draining_ ? "draining" : reason_;
}

uint64_t Readiness::num_faults() const {
  const std::scoped_lock lock(mutex_);
  return num_faults_;
}

bool Readiness::wait_for_fault(uint64_t num_faults, const std::stop_token& stop) const {
  std::unique_lock lock(mutex_);
  return faulted_.wait(lock, stop, [&] { return num_faults_ > num_faults; });
}

}  // namespace firstlight::server
