// SPDX-License-Identifier: Apache-2.0
#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <numeric>
#include <span>

namespace firstlight {
namespace {

TEST(SmallVector, GoesOnBeyondItsOwnRoom) {
  SmallVector<int, 4> numbers;
  EXPECT_TRUE(numbers.empty());
  for (int i = 0; i < 4; ++i) numbers.push_back(i);
  const int* inside = numbers.data();
  EXPECT_TRUE(inside >= reinterpret_cast<int*>(&numbers) && inside < reinterpret_cast<int*>(&numbers + 1));
  numbers.push_back(numbers[0]);
  numbers.push_back(numbers.back());
  EXPECT_NE(numbers.data(), inside);
  const std::span<const int> all = numbers;
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), 6);
  EXPECT_EQ(all.size(), 6u);
}

TEST(SmallVector, ResizesBothWays) {
  SmallVector<int, 2> numbers(5, 7);
  EXPECT_EQ(numbers.size(), 5u);
  numbers.resize(1);
  numbers.resize(3);
  EXPECT_EQ(numbers[0], 7);
  EXPECT_EQ(numbers[1], 0);
  EXPECT_EQ(numbers[2], 0);
}

}  // namespace
}  // namespace firstlight
