// SPDX-License-Identifier: Apache-2.0
#include "server/pace.h"

#include <gtest/gtest.h>

namespace firstlight::server {
namespace {

using namespace std::chrono_literals;

TEST(Pace, WithoutAMeasurementSaysASecond) {
  const Pace pace;
  EXPECT_EQ(pace.retry_after_s(1000, Pace::Clock::now()), 1);
}

TEST(Pace, SaysHowLongTheQueueTakesAtTheMeasuredRate) {
  Pace pace;
  const auto start = Pace::Clock::now();
  for (int i = 0; i < 20; ++i) pace.ended(start + i * 500ms);  // two per second
  const auto now = start + 10s;
  EXPECT_EQ(pace.retry_after_s(0, now), 1);
  EXPECT_EQ(pace.retry_after_s(1, now), 1);
  EXPECT_EQ(pace.retry_after_s(20, now), 10);
  EXPECT_EQ(pace.retry_after_s(21, now), 11) << "rounded up";
  EXPECT_EQ(pace.retry_after_s(100000, now), 60) << "at most";
}

TEST(Pace, ForgetsWhatIsLongAgo) {
  Pace pace;
  const auto start = Pace::Clock::now();
  for (int i = 0; i < 1000; ++i) pace.ended(start);
  for (int i = 0; i < 64; ++i) pace.ended(start + 100s + i * 100ms);
  EXPECT_EQ(pace.retry_after_s(30, start + 106400ms), 3);
  EXPECT_EQ(pace.retry_after_s(30, start + 300s), 1) << "nothing ended in the last minute";
}

}  // namespace
}  // namespace firstlight::server
