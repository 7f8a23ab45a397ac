// SPDX-License-Identifier: Apache-2.0
#include "server/readiness.h"

#include <utility>

namespace firstlight::server {

void Readiness::set_ready() {
  const std::scoped_lock lock(mutex_);
  if (!lost_) reason_.clear();
}

void Readiness::set_not_ready(std::string reason) {
  const std::scoped_lock lock(mutex_);
  if (!lost_) reason_ = reason.empty() ? "not ready" : std::move(reason);
}

void Readiness::lose(std::string reason) {
  const std::scoped_lock lock(mutex_);
  if (!lost_) reason_ = reason.empty() ? "lost" : std::move(reason);
  lost_ = true;
}

bool Readiness::is_ready() const {
  const std::scoped_lock lock(mutex_);
  return reason_.empty();
}

std::string Readiness::reason() const {
  const std::scoped_lock lock(mutex_);
  return reason_;
}

}  // namespace firstlight::server
