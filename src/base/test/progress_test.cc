// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace firstlight {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

struct Screen {
  int64_t now = 0;
  std::vector<std::string> writes;

  ProgressOptions options(ProgressMode mode, ProgressUnit unit = ProgressUnit::kItems) {
    ProgressOptions result{.mode = mode, .unit = unit};
    result.write = [this](std::string_view text) { writes.emplace_back(text); };
    result.clock_ns = [this] { return now; };
    return result;
  }
};

TEST(Progress, BarShowsShareRateAndTimeLeft) {
  Screen screen;
  Progress progress("load", 4 << 20, screen.options(ProgressMode::kBar, ProgressUnit::kBytes));
  screen.now = 2 * kSecondNs;
  progress.advance(1 << 20);
  ASSERT_EQ(screen.writes.size(), 1u);
  EXPECT_EQ(screen.writes[0], "\rload [######..................]  25% 1.0 MiB of 4.0 MiB, 512.0 KiB/s, 0:06 left");
  screen.now += kSecondNs / 100;
  progress.advance(1);
  EXPECT_EQ(screen.writes.size(), 1u) << "redrawn at most ten times a second";
  screen.now = 8 * kSecondNs;
  progress.advance((3 << 20) - 1);
  progress.finish();
  progress.finish();
  ASSERT_EQ(screen.writes.size(), 3u);
  EXPECT_NE(screen.writes[2].find("100% 4.0 MiB of 4.0 MiB, 512.0 KiB/s, 0:08"), std::string::npos);
  EXPECT_EQ(screen.writes[2].back(), '\n');
  EXPECT_EQ(screen.writes[1].size(), screen.writes[0].size()) << "the tail of a longer line is wiped";
}

TEST(Progress, PlainLinesElsewhere) {
  Screen screen;
  Progress progress("decode", 100, screen.options(ProgressMode::kLines));
  screen.now = kSecondNs;
  progress.advance(10);
  EXPECT_TRUE(screen.writes.empty());
  screen.now = 10 * kSecondNs;
  progress.advance(10);
  ASSERT_EQ(screen.writes.size(), 1u);
  EXPECT_EQ(screen.writes[0], "decode  20% 20 of 100 it, 2 it/s, 0:40 left\n");
}

TEST(Progress, ShortWorkAndSilenceWriteNothing) {
  Screen screen;
  { Progress progress("short", 10, screen.options(ProgressMode::kBar)); }
  {
    Progress progress("silent", 10, screen.options(ProgressMode::kSilent));
    screen.now = 100 * kSecondNs;
    progress.advance(10);
  }
  EXPECT_TRUE(screen.writes.empty());
}

TEST(Progress, UnknownEndHasNoShare) {
  Screen screen;
  Progress progress("read", 0, screen.options(ProgressMode::kLines));
  screen.now = 20 * kSecondNs;
  progress.advance(50000);
  ASSERT_EQ(screen.writes.size(), 1u);
  EXPECT_EQ(screen.writes[0], "read 50.0k it, 2500 it/s, 0:20\n");
}

TEST(Progress, CountsFromManyThreads) {
  Screen screen;
  Progress progress("threads", 40000, screen.options(ProgressMode::kBar));
  screen.now = kSecondNs;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&progress] {
      for (int k = 0; k < 10000; ++k) progress.advance(1);
    });
  }
  for (auto& thread : threads) thread.join();
  progress.finish();
  ASSERT_FALSE(screen.writes.empty());
  EXPECT_NE(screen.writes.back().find("100% 40.0k of 40.0k it"), std::string::npos);
}

TEST(Progress, Formats) {
  EXPECT_EQ(format_bytes(640), "640 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_seconds(7), "0:07");
  EXPECT_EQ(format_seconds(3723), "1:02:03");
  EXPECT_EQ(format_seconds(-1), "?");
}

}  // namespace
}  // namespace firstlight
