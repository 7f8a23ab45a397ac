// SPDX-License-Identifier: Apache-2.0
#include "base/core_share.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace firstlight {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(CoreShare, KeepsAllThreadsWhileTheyAreLeftAlone) {
  CoreShare share(2);
  for (int i = 1; i < 100; ++i) {
    EXPECT_FALSE(share.look(20 * kMs, std::array<int64_t, 2>{kMs, 2 * kMs}, i * 20 * kMs));
  }
  EXPECT_EQ(share.active(), 2);
}

TEST(CoreShare, OneOfTwoThatHasHalfOfItsCoreIsLeftOut) {
  CoreShare share(2);
  EXPECT_FALSE(share.look(20 * kMs, std::array<int64_t, 2>{0, 9 * kMs}, 0));
  EXPECT_TRUE(share.look(20 * kMs, std::array<int64_t, 2>{0, 9 * kMs}, 20 * kMs));
  EXPECT_EQ(share.active(), 1);
}

TEST(CoreShare, APassingBurstChangesNothing) {
  CoreShare share(2);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(share.look(20 * kMs, std::array<int64_t, 2>{0, i % 2 == 0 ? 15 * kMs : 0}, i * 20 * kMs));
  }
}

// Of many threads even a short wait of one costs more than it brings; of two it does not.
TEST(CoreShare, TheLimitIsWhatAThreadBrings) {
  std::array<int64_t, 16> delays{};
  delays[3] = 3 * kMs;
  CoreShare many(16);
  EXPECT_FALSE(many.look(20 * kMs, delays, 0));
  EXPECT_TRUE(many.look(20 * kMs, delays, 20 * kMs));
  EXPECT_EQ(many.active(), 15);
  CoreShare two(2);
  EXPECT_FALSE(two.look(20 * kMs, std::array<int64_t, 2>{3 * kMs, 0}, 0));
  EXPECT_FALSE(two.look(20 * kMs, std::array<int64_t, 2>{3 * kMs, 0}, 20 * kMs));
}

TEST(CoreShare, TriesAllAgainAndLaterEachTimeItIsInVain) {
  CoreShare share(2);
  const std::array<int64_t, 2> taken{0, 10 * kMs};
  const std::array<int64_t, 1> alone{0};
  EXPECT_FALSE(share.look(20 * kMs, taken, -20 * kMs));
  EXPECT_TRUE(share.look(20 * kMs, taken, 0));
  EXPECT_FALSE(share.look(20 * kMs, alone, CoreShare::kFirstRetry - kMs));
  EXPECT_TRUE(share.look(20 * kMs, alone, CoreShare::kFirstRetry));
  EXPECT_EQ(share.active(), 2);
  EXPECT_TRUE(share.look(20 * kMs, taken, CoreShare::kFirstRetry + 20 * kMs));
  EXPECT_EQ(share.active(), 1);
  EXPECT_FALSE(share.look(20 * kMs, alone, 3 * CoreShare::kFirstRetry));  // 20 ms too early
  EXPECT_TRUE(share.look(20 * kMs, alone, 3 * CoreShare::kFirstRetry + 20 * kMs));
  EXPECT_FALSE(share.look(20 * kMs, std::array<int64_t, 2>{0, 0}, 4 * CoreShare::kFirstRetry));
  EXPECT_EQ(share.active(), 2);
}

TEST(CoreShare, SomeoneAlwaysStays) {
  CoreShare share(4);
  const std::array<int64_t, 4> taken{10 * kMs, 10 * kMs, 10 * kMs, 10 * kMs};
  EXPECT_FALSE(share.look(20 * kMs, taken, 0));
  EXPECT_TRUE(share.look(20 * kMs, taken, 20 * kMs));
  EXPECT_EQ(share.active(), 1);
}

TEST(CoreShare, TheSystemSaysHowLongAThreadWaited) {
  const int64_t delay = run_delay_ns(gettid());
  if (delay < 0) GTEST_SKIP() << "this kernel keeps no run delays";
  EXPECT_GE(run_delay_ns(gettid()), delay);
  EXPECT_EQ(run_delay_ns(0), -1);
}

}  // namespace
}  // namespace firstlight
