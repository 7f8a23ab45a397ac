// SPDX-License-Identifier: Apache-2.0
// How many tokens ahead a guess pays, from how often guesses were right lately. Where they never are it costs next to
// nothing: one guess now and then, ever more seldom. Counts, no clocks: the same text gives the same guesses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firstlight::engine {

class Pace {
 public:
  // At most `most` tokens to guess now; 0: none. `rows`: sequences in the step; the more there are, the less a row is
  // cheaper in company. One call is one chance.
  int64_t depth(int64_t most, int64_t rows);

  // How many of the tokens guessed last were right, from the first on.
  void tell(size_t accepted, size_t drafted);

 private:
  static constexpr int64_t kShortRest = 24, kLongRest = 384;

  double share_ = 0.5;         // of guesses that were right, lately
  int64_t rest_ = kShortRest;  // chances to pass before one more guess, where none pays
  int64_t passed_ = 0;         // since the last guess
  bool is_trial_ = false;      // the last guess was one that did not pay
};

}  // namespace firstlight::engine
