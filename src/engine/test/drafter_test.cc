// SPDX-License-Identifier: Apache-2.0
#include "engine/drafter.h"

#include <gtest/gtest.h>

namespace firstlight::engine {
namespace {

using Tokens = std::vector<int32_t>;

TEST(Drafter, SaysWhatFollowedLastTime) {
  Drafter drafter;
  drafter.tell(20, 20);  // sure of itself
  EXPECT_EQ(drafter.propose(Tokens{1, 2, 3, 4, 5, 9, 1, 2, 3}, 3, 1), (Tokens{4, 5, 9}));
  EXPECT_EQ(drafter.propose(Tokens{1, 2, 3, 4, 5, 9, 1, 2, 3, 7, 7, 1, 2, 3}, 2, 1), (Tokens{7, 7})) << "the last time";
}

TEST(Drafter, LongerContextsGoFirst) {
  Drafter drafter;
  drafter.tell(20, 20);
  EXPECT_EQ(drafter.propose(Tokens{1, 2, 3, 4, 8, 2, 3, 6, 1, 2, 3}, 1, 1), Tokens{4});
  EXPECT_EQ(drafter.propose(Tokens{1, 2, 3, 4, 8, 2, 3, 6, 1, 2, 3, 5, 2, 3}, 1, 1), Tokens{5});
  EXPECT_EQ(drafter.propose(Tokens{1, 2, 3, 4, 8, 2, 3, 6, 1, 2, 3, 5, 2, 3, 9}, 1, 1), Tokens{});
}

TEST(Drafter, ARepetitionGoesOnIntoTheGuess) {
  Drafter drafter;
  drafter.tell(20, 20);
  EXPECT_EQ(drafter.propose(Tokens{5, 6, 7, 5, 6, 7, 5}, 7, 1), (Tokens{6, 7, 5, 6, 7, 5, 6}));
  EXPECT_EQ(drafter.propose(Tokens{5, 6, 7, 5, 6, 7, 5, 5, 5, 5}, 2, 1), (Tokens{5, 5}));
}

TEST(Drafter, GuessesLessWhenWrongAndTriesAgain) {
  Drafter drafter;
  const Tokens tokens = {5, 6, 7, 8, 5, 6};
  EXPECT_EQ(drafter.propose(tokens, 8, 1).size(), 1u);
  drafter.tell(0, 1);
  drafter.tell(0, 1);
  int guesses = 0;
  for (int i = 0; i < 100; ++i) {
    const size_t count = drafter.propose(tokens, 8, 1).size();
    guesses += static_cast<int>(count);
    if (count > 0) drafter.tell(0, count);
  }
  EXPECT_EQ(guesses, 2) << "ever more seldom";
  drafter.tell(12, 12);
  EXPECT_GE(drafter.propose(tokens, 8, 1).size(), 6u);
  EXPECT_LT(drafter.propose(tokens, 8, 8).size(), 6u) << "rows in company are cheap already";
}

}  // namespace
}  // namespace firstlight::engine
