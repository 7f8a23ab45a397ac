// SPDX-License-Identifier: Apache-2.0
#include "engine/drafter.h"

#include <algorithm>
#include <cmath>

namespace firstlight::engine {
namespace {

constexpr double kMemory = 0.8;     // of the share, per guess
constexpr double kRowSaving = 1.5;  // a step of n rows costs as (n + 1.5) of them: decoding of SmolLM2, measured
constexpr int64_t kTryAgain = 24;   // chances passed before one more guess

// Equal for equal tokens; for vocabularies beyond 2^21 maybe for others too, which costs a wrong guess.
uint64_t key_of(std::span<const int32_t> tokens) {
  uint64_t key = 0;
  for (const int32_t token : tokens) key = key << 21 ^ static_cast<uint64_t>(token);
  return key;
}

}  // namespace

void Drafter::learn(std::span<const int32_t> tokens) {
  for (int64_t next = std::max<int64_t>(learned_, 1); next < static_cast<int64_t>(tokens.size()); ++next) {
    for (size_t n = kShortest; n <= kLongest; ++n) {
      if (static_cast<size_t>(next) < n) continue;
      places_[n][key_of(tokens.subspan(static_cast<size_t>(next) - n, n))] = next;
    }
  }
  learned_ = static_cast<int64_t>(tokens.size());
}

int64_t Drafter::place_after(std::span<const int32_t> tokens) const {
  for (size_t n = std::min(kLongest, tokens.size()); n >= kShortest; --n) {
    const auto found = places_[n].find(key_of(tokens.last(n)));
    if (found != places_[n].end()) return found->second;
  }
  return -1;
}

std::vector<int32_t> Drafter::propose(std::span<const int32_t> tokens, int64_t most, int64_t rows) {
  learn(tokens);
  const int64_t place = place_after(tokens);
  if (place < 0) return {};
  // A guess j tokens on is right with share^j; it pays while that is above what one more row costs of a row's share.
  const double least = static_cast<double>(rows) / (static_cast<double>(rows) + kRowSaving);
  int64_t count = share_ > 0.99 ? most : static_cast<int64_t>(std::log(least) / std::log(share_));
  if (count <= 0) {
    if (++passed_ < kTryAgain) return {};
    count = 1;
  }
  passed_ = 0;
  std::vector<int32_t> draft;
  for (int64_t at = place; static_cast<int64_t>(draft.size()) < std::min(count, most); ++at) {
    const auto size = static_cast<int64_t>(tokens.size());  // what repeats itself may reach into the guess
    draft.push_back(at < size ? tokens[static_cast<size_t>(at)] : draft[static_cast<size_t>(at - size)]);
  }
  return draft;
}

void Drafter::tell(size_t accepted, size_t drafted) {
  for (size_t i = 0; i < accepted; ++i) share_ = share_ * kMemory + (1 - kMemory);
  if (accepted < drafted) share_ *= kMemory;
}

}  // namespace firstlight::engine
