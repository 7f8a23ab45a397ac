// SPDX-License-Identifier: Apache-2.0
#include "engine/pace.h"

#include <gtest/gtest.h>

namespace firstlight::engine {
namespace {

// Tokens guessed over so many chances, of which each is right or wrong as `is_right` has it.
template <typename IsRight>
int64_t guessed(int64_t chances, int64_t rows, const IsRight& is_right) {
  Pace pace;
  int64_t total = 0;
  for (int64_t i = 0; i < chances; ++i) {
    const int64_t count = pace.depth(8, rows);
    total += count;
    if (count == 0) continue;
    int64_t right = 0;
    while (right < count && is_right(i + right)) ++right;
    pace.tell(static_cast<size_t>(right), static_cast<size_t>(count));
  }
  return total;
}

// The bound of what guesses cost that are never right: a row more in one step of twenty at most, and ever fewer.
TEST(Pace, NeverRightCostsNextToNothing) {
  const auto never = [](int64_t) { return false; };
  for (const int64_t rows : {1, 2, 8, 32}) {
    EXPECT_LE(guessed(64, rows, never), 3) << rows;
    EXPECT_LE(guessed(128, rows, never), 4) << rows;
    EXPECT_LE(guessed(1000, rows, never), 8) << rows;
    EXPECT_LE(guessed(10000, rows, never), 32) << rows;
    EXPECT_GE(guessed(10000, rows, never), 20) << "it is tried again";
  }
}

TEST(Pace, AlwaysRightGoesAsFarAsAllowed) {
  const auto always = [](int64_t) { return true; };
  EXPECT_GE(guessed(100, 1, always), 700);
  Pace pace;
  EXPECT_EQ(pace.depth(8, 1), 1) << "nothing is known yet";
  pace.tell(20, 20);
  EXPECT_EQ(pace.depth(8, 1), 8);
  pace.tell(1, 2);
  EXPECT_EQ(pace.depth(8, 8), 0) << "rows in company are cheap already";
  EXPECT_GE(pace.depth(8, 1), 3);
  EXPECT_EQ(pace.depth(0, 1), 0);
}

TEST(Pace, ComesBackWhenTheTextChanges) {
  const auto later = [](int64_t i) { return i >= 2000; };
  EXPECT_GT(guessed(4000, 1, later), 8 * 1200);
}

TEST(Pace, HalfRightIsGuessedOneByOne) {
  const auto every_second = [](int64_t i) { return i % 2 == 0; };
  const int64_t total = guessed(1000, 1, every_second);
  EXPECT_GT(total, 500);
  EXPECT_LT(total, 2500);
}

}  // namespace
}  // namespace firstlight::engine
