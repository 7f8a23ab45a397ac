// SPDX-License-Identifier: Apache-2.0
// Guesses the next tokens of a sequence without a second model: where its last few tokens have stood before, what
// followed then (prompt lookup; Yang et al., arXiv:2304.04487). Counts how often it was right, and guesses no further
// than pays. One per sequence.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace firstlight::engine {

class Drafter {
 public:
  // At most `most` tokens that may follow `tokens`, of which those of the call before are a beginning; empty where
  // nothing is known or a guess would not pay. `rows`: sequences in the step; the more there are, the less a row is
  // cheaper in company.
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int64_t most, int64_t rows);

  // How many of the tokens proposed last were right, from the first on.
  void tell(size_t accepted, size_t drafted);

 private:
  static constexpr size_t kLongest = 3, kShortest = 2;  // tokens that have to be the same

  void learn(std::span<const int32_t> tokens);
  int64_t place_after(std::span<const int32_t> tokens) const;  // of the continuation; -1: none

  std::unordered_map<uint64_t, int64_t> places_[kLongest + 1];  // by length: last tokens to what follows them
  int64_t learned_ = 0;                                         // tokens that are in `places_` with what follows
  double share_ = 0.6;                                          // of guesses that were right, lately
  int64_t passed_ = 0;                                          // chances not taken since the last guess
};

}  // namespace firstlight::engine
