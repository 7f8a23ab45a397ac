// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate.h"

#include <gtest/gtest.h>

#include <set>

namespace firstlight::fuzz {
namespace {

TEST(Mutate, SameNumberSameBytes) {
  const Bytes seed = {1, 2, 3, 4, 5, 6, 7, 8};
  Random first(7), second(7), third(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const Bytes made = mutate(seed, seed, first);
    EXPECT_EQ(made, mutate(seed, seed, second));
    differs |= made != mutate(seed, seed, third);
  }
  EXPECT_TRUE(differs);
}

TEST(Mutate, CutsGrowsAndChanges) {
  const Bytes seed(64, 0xaa);
  Random random(1);
  std::set<Bytes> made;
  bool shorter = false, longer = false, empty = false;
  for (int i = 0; i < 5000; ++i) {
    Bytes bytes = mutate(seed, {1, 2, 3}, random);
    shorter |= bytes.size() < seed.size();
    longer |= bytes.size() > seed.size();
    empty |= bytes.empty();
    made.insert(std::move(bytes));
  }
  EXPECT_TRUE(shorter && longer && empty);
  EXPECT_GT(made.size(), 3000u);
}

TEST(Mutate, EmptySeed) {
  Random random(1);
  for (int i = 0; i < 100; ++i) EXPECT_LE(mutate({}, {}, random).size(), 0u);
}

}  // namespace
}  // namespace firstlight::fuzz
