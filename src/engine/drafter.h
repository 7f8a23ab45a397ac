// SPDX-License-Identifier: Apache-2.0
// Guesses the next tokens of a sequence without a second model: where its last few tokens have stood before, what
// followed then (prompt lookup; Yang et al., arXiv:2304.04487). One per sequence.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/pace.h"

namespace firstlight::engine {

class Drafter {
 public:
  // At most `most` tokens that may follow `tokens`, of which those of the call before are a beginning; empty where
  // nothing is known or a guess would not pay (Pace::depth).
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int64_t most, int64_t rows);

  // As Pace has it.
  void tell(size_t accepted, size_t drafted) { pace_.tell(accepted, drafted); }

 private:
  static constexpr size_t kLongest = 3, kShortest = 2;  // tokens that have to be the same

  void learn(std::span<const int32_t> tokens);
  int64_t place_after(std::span<const int32_t> tokens) const;  // of the continuation; -1: none

  std::unordered_map<uint64_t, int64_t> places_[kLongest + 1];  // by length: last tokens to what follows them
  int64_t learned_ = 0;                                         // tokens that are in `places_` with what follows
  Pace pace_;
};

}  // namespace firstlight::engine
