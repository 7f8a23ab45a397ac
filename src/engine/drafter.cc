// SPDX-License-Identifier: Apache-2.0
#include "engine/drafter.h"

#include <algorithm>

namespace firstlight::engine {
namespace {

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
  const int64_t count = pace_.depth(most, rows);
  std::vector<int32_t> draft;
  for (int64_t at = place; static_cast<int64_t>(draft.size()) < count; ++at) {
    const auto size = static_cast<int64_t>(tokens.size());  // what repeats itself may reach into the guess
    draft.push_back(at < size ? tokens[static_cast<size_t>(at)] : draft[static_cast<size_t>(at - size)]);
  }
  return draft;
}

}  // namespace firstlight::engine
