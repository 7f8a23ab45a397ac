// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <numeric>
#include <thread>
#include <vector>

#include "base/core_share.h"

namespace firstlight {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {
 protected:
  ThreadPool pool_{ThreadPool::Options{.num_threads = GetParam()}};
};

TEST_P(ThreadPoolTest, EveryWorkerRunsOncePerRun) {
  ASSERT_EQ(pool_.num_threads(), GetParam());
  std::vector<int> calls(static_cast<size_t>(GetParam()));
  for (int i = 0; i < 200; ++i) {
    pool_.run([&](Worker& worker) {
      EXPECT_EQ(worker.count(), GetParam());
      ++calls[static_cast<size_t>(worker.index())];
    });
  }
  for (int count : calls) EXPECT_EQ(count, 200);
}

// Plain (not atomic) cells, rotated among the workers: a barrier that lets one through early gives a wrong sum.
TEST_P(ThreadPoolTest, ManyBarriersOrderPlainMemory) {
  constexpr int kRounds = 3000;
  const auto count = static_cast<size_t>(GetParam());
  std::vector<int64_t> cells(count);
  pool_.run([&](Worker& worker) {
    for (int round = 0; round < kRounds; ++round) {
      cells[(static_cast<size_t>(worker.index()) + static_cast<size_t>(round)) % count] += worker.index() + 1;
      worker.barrier();
    }
  });
  const int64_t per_round = GetParam() * (GetParam() + 1) / 2;
  EXPECT_EQ(std::accumulate(cells.begin(), cells.end(), int64_t{0}), kRounds * per_round);
}

TEST_P(ThreadPoolTest, SlowWorkerIsWaitedForByParkedOnes) {
  std::atomic<int> arrived{0};
  pool_.run([&](Worker& worker) {
    if (worker.index() == worker.count() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    arrived.fetch_add(1);
    worker.barrier();
    EXPECT_EQ(arrived.load(), worker.count());
  });
}

TEST_P(ThreadPoolTest, TicketsAreHandedOutOnceEach) {
  constexpr int64_t kTotal = 1000;
  std::vector<std::atomic<int>> taken(kTotal);
  pool_.run([&](Worker& worker) {
    for (int loop = 0; loop < 5; ++loop) {
      worker.reset_tickets();
      for (int64_t i = worker.next_ticket(kTotal); i >= 0; i = worker.next_ticket(kTotal)) {
        taken[static_cast<size_t>(i)].fetch_add(1);
      }
    }
  });
  for (const auto& count : taken) EXPECT_EQ(count.load(), 5);
}

TEST_P(ThreadPoolTest, SharesCoverEverythingInWholeGrains) {
  for (int64_t grain : {1, 16, 100}) {
    for (int64_t total : {0, 1, 15, 16, 17, 100, 1000}) {
      std::vector<Worker::Range> ranges(static_cast<size_t>(GetParam()));
      pool_.run([&](Worker& worker) { ranges[static_cast<size_t>(worker.index())] = worker.share(total, grain); });
      int64_t next = 0;
      for (const Worker::Range& range : ranges) {
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.begin, range.end);
        EXPECT_EQ(range.begin % grain, 0);
        next = range.end;
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST_P(ThreadPoolTest, ScratchGrowsIsAlignedAndPrivate) {
  for (size_t bytes : {size_t{1}, size_t{5000}, size_t{3} << 20, size_t{100}}) {
    pool_.run([&](Worker& worker) {
      std::byte* scratch = worker.scratch(bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch) % 64, 0u);
      std::memset(scratch, worker.index() + 1, bytes);
      worker.barrier();
      EXPECT_EQ(static_cast<int>(scratch[0]), worker.index() + 1);
      EXPECT_EQ(static_cast<int>(scratch[bytes - 1]), worker.index() + 1);
      EXPECT_EQ(worker.scratch(bytes), scratch);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, ThreadPoolTest, testing::Values(1, 2, 3, 4), testing::PrintToStringParamName());

TEST(ThreadPool, ZeroMeansTheAllowedCores) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(ThreadPool(ThreadPool::Options{}).num_threads(), CPU_COUNT(&set));
}

TEST(ThreadPool, CallerKeepsItsAffinity) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  ThreadPool pool(ThreadPool::Options{.num_threads = 2});
  pool.run([](Worker&) {});
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPool, WorksWithoutSpinning) {
  ThreadPool pool(ThreadPool::Options{.num_threads = 2, .spin_us = 0});
  int64_t sum = 0;
  pool.run([&](Worker& worker) {
    for (int i = 0; i < 500; ++i) {
      if (worker.index() == i % 2) ++sum;
      worker.barrier();
    }
  });
  EXPECT_EQ(sum, 500);
}

// Busy threads of others, one per core: whoever takes part has about half of a core.
TEST(ThreadPool, LeavesThreadsOutWhileOthersTakeTheirCores) {
  if (run_delay_ns(gettid()) < 0) GTEST_SKIP() << "this kernel keeps no run delays";
  ThreadPool pool(ThreadPool::Options{.num_threads = 2, .yields = true});
  std::atomic<bool> stop{false};
  std::vector<std::jthread> others;
  for (unsigned i = 0; i < std::max(2U, std::thread::hardware_concurrency()); ++i) {
    others.emplace_back([&stop] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  int least = 2;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (least == 2 && std::chrono::steady_clock::now() < end) {
    std::array<int64_t, 2> cells{};
    int taking_part = 0;
    pool.run([&](Worker& worker) {
      if (worker.index() == 0) taking_part = worker.count();
      for (int round = 0; round < 50; ++round) {
        ++cells[static_cast<size_t>((worker.index() + round) % worker.count())];
        worker.barrier();
      }
    });
    EXPECT_EQ(cells[0] + cells[1], 50 * taking_part);
    least = std::min(least, taking_part);
  }
  stop.store(true);
  EXPECT_EQ(least, 1);
}

// Threads that wait for their cores half of the time, or only before the runs began.
TEST(ThreadPool, LeavesThreadsOutForWhatTheyWaitInRunsAlone) {
  static std::atomic<bool> waits_in_runs{false};
  const auto delay_of = [](int) -> int64_t {
    using Clock = std::chrono::steady_clock;
    static const Clock::time_point first = Clock::now();
    const int64_t past = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - first).count();
    return 1'000'000'000 + (waits_in_runs ? past / 2 : 0);
  };
  for (const bool waits : {false, true}) {
    waits_in_runs = waits;
    ThreadPool pool(ThreadPool::Options{.num_threads = 2, .yields = true, .run_delay = delay_of});
    int taking_part = 0;
    for (int i = 0; i < 4; ++i) {
      pool.run([&](Worker& worker) {
        if (worker.index() == 0) taking_part = worker.count();
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(21);  // a window
        while (std::chrono::steady_clock::now() < end) {
        }
      });
    }
    EXPECT_EQ(taking_part, waits ? 1 : 2);
  }
}

// With room for a few stacks more: what `ulimit -v` makes of a machine with many cores.
void start_too_many() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  const rlim_t bytes = pages * 4096 + (rlim_t{64} << 20);
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(2);
  const auto pool = ThreadPool::create({.num_threads = 1024});
  std::cerr << pool.status().message();
  std::exit(pool.status().code() == StatusCode::kUnavailable ? 0 : 1);
}

TEST(ThreadPoolDeathTest, TooManyThreadsAreRefusedInWords) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(start_too_many(), testing::ExitedWithCode(0), "thread [0-9]+ of 1024 could not be started: ");
}

TEST(ThreadPoolDeathTest, NestedRunIsABug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        ThreadPool pool(ThreadPool::Options{.num_threads = 2});
        pool.run([&](Worker& worker) {
          if (worker.index() == 0) pool.run([](Worker&) {});
        });
      },
      "running");
}

}  // namespace
}  // namespace firstlight
