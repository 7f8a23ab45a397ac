// SPDX-License-Identifier: Apache-2.0
#include "engine/pace.h"

#include <algorithm>
#include <cmath>

namespace firstlight::engine {
namespace {

constexpr double kMemory = 0.8;      // of the share, per guess
constexpr double kLeastShare = 0.2;  // from which one right guess leads back to guessing
constexpr double kRowSaving = 1.5;   // a step of n rows costs as (n + 1.5) of them: decoding of SmolLM2, measured

}  // namespace

int64_t Pace::depth(int64_t most, int64_t rows) {
  if (most <= 0) return 0;
  // A guess j tokens on is right with share^j; it pays while that is above what one more row costs of a row's share.
  const double least = static_cast<double>(rows) / (static_cast<double>(rows) + kRowSaving);
  int64_t count = share_ > 0.99 ? most : static_cast<int64_t>(std::log(least) / std::log(share_) + 1e-9);
  is_trial_ = count <= 0;
  if (is_trial_) {
    if (++passed_ < rest_) return 0;
    count = 1;
  }
  passed_ = 0;
  return std::min(count, most);
}

void Pace::tell(size_t accepted, size_t drafted) {
  for (size_t i = 0; i < accepted; ++i) share_ = share_ * kMemory + (1 - kMemory);
  if (accepted < drafted) share_ = std::max(share_ * kMemory, kLeastShare);
  if (accepted > 0) {
    rest_ = kShortRest;
  } else if (is_trial_) {
    rest_ = std::min(2 * rest_, kLongRest);
  }
}

}  // namespace firstlight::engine
