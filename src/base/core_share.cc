// SPDX-License-Identifier: Apache-2.0
#include "base/core_share.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

namespace firstlight {
namespace {

// A thread that is kept waiting less than this costs less than it brings whatever the number of threads.
constexpr double kLittle = 0.08;

}  // namespace

bool CoreShare::look(int64_t ran, std::span<const int64_t> delays, int64_t now) {
  const int before = active_;
  if (active_ < most_) {
    if (now < retry_at_) return false;
    active_ = most_;
    retries_ = true;
    return true;
  }
  const int64_t worst = delays.empty() ? 0 : *std::max_element(delays.begin(), delays.end());
  const double limit = std::max(kLittle, 0.7 / most_);  // what a thread brings, less a little for the change
  if (static_cast<double>(worst) <= limit * static_cast<double>(ran)) {
    retries_ = suspects_ = false;
    retry_after_ = kFirstRetry;
    return false;
  }
  if (!retries_ && !std::exchange(suspects_, true)) return false;
  suspects_ = false;
  const auto is_kept_waiting = [&](int64_t delay) {
    return static_cast<double>(delay) > kLittle * static_cast<double>(ran);
  };
  const auto waiting = std::count_if(delays.begin(), delays.end(), is_kept_waiting);
  active_ = std::max(1, most_ - static_cast<int>(waiting));
  if (retries_) retry_after_ = std::min(2 * retry_after_, kLastRetry);
  retries_ = false;
  retry_at_ = now + retry_after_;
  return active_ != before;
}

int64_t run_delay_ns(int thread_id) {
  const std::string path = "/proc/self/task/" + std::to_string(thread_id) + "/schedstat";
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return -1;
  long long ran = 0, delayed = -1;
  const int read = std::fscanf(file, "%lld %lld", &ran, &delayed);
  std::fclose(file);
  return read == 2 ? delayed : -1;
}

}  // namespace firstlight
