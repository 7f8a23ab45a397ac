// SPDX-License-Identifier: Apache-2.0
#include "server/readiness_keeper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <semaphore>

namespace firstlight::server {
namespace {

using namespace std::chrono_literals;

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

constexpr ReadinessPolicy kQuick = {.first_pause_s = 0.001, .longest_pause_s = 0.004};

// A check that the test lets go on, and whose answer it says.
struct ScriptedCheck {
  std::counting_semaphore<100> begun{0}, may_end{0};
  std::atomic<bool> passes{true};
  Status operator()() {
    begun.release();
    may_end.acquire();
    return passes ? ok_status() : internal_error("other tokens");
  }
};

TEST(ReadinessKeeper, ReadyOnlyAfterTheCheck) {
  Readiness readiness;
  ScriptedCheck check;
  const ReadinessKeeper keeper(readiness, std::ref(check), kQuick, nullptr, nullptr);
  check.begun.acquire();
  EXPECT_FALSE(readiness.is_ready());
  check.may_end.release();
  EXPECT_TRUE(eventually([&] { return readiness.is_ready(); }));
}

TEST(ReadinessKeeper, AFaultIsNotReadyAtOnceAndUntilTheNextCheckHasPassed) {
  Readiness readiness;
  ScriptedCheck check;
  check.may_end.release();
  const ReadinessKeeper keeper(readiness, std::ref(check), kQuick, nullptr, nullptr);
  EXPECT_TRUE(eventually([&] { return readiness.is_ready(); }));
  check.begun.acquire();
  readiness.fault("a step failed: the device is gone");
  EXPECT_FALSE(readiness.is_ready());
  EXPECT_EQ(readiness.reason(), "a step failed: the device is gone");
  check.begun.acquire();  // the check runs
  EXPECT_FALSE(readiness.is_ready());
  check.may_end.release();
  EXPECT_TRUE(eventually([&] { return readiness.is_ready(); }));
}

TEST(ReadinessKeeper, ACheckThatBeganBeforeAFaultDoesNotCount) {
  Readiness readiness;
  ScriptedCheck check;
  const ReadinessKeeper keeper(readiness, std::ref(check), kQuick, nullptr, nullptr);
  check.begun.acquire();
  readiness.fault("logits are no numbers");
  check.may_end.release();  // the first one passes, and says nothing about now
  check.begun.acquire();
  EXPECT_FALSE(readiness.is_ready());
  check.may_end.release();
  EXPECT_TRUE(eventually([&] { return readiness.is_ready(); }));
}

TEST(ReadinessKeeper, RepeatsACheckThatFails) {
  Readiness readiness;
  Metrics metrics;
  ScriptedCheck check;
  check.passes = false;
  const ReadinessKeeper keeper(readiness, std::ref(check), kQuick, &metrics, nullptr);
  for (int i = 0; i < 3; ++i) {
    check.begun.acquire();
    EXPECT_FALSE(readiness.is_ready());
    EXPECT_EQ(readiness.reason(), i == 0 ? "starting" : "other tokens");
    if (i == 2) check.passes = true;
    check.may_end.release();
  }
  EXPECT_TRUE(eventually([&] { return readiness.is_ready(); }));
  EXPECT_NE(metrics.exposition().find("firstlight_golden_checks_total{result=\"failed\"} 2"), std::string::npos);
}

TEST(ReadinessKeeper, ALossEndsTheChecks) {
  Readiness readiness;
  std::atomic<int> num_checks{0};
  const ReadinessKeeper keeper(
      readiness,
      [&] {
        ++num_checks;
        return ok_status();
      },
      kQuick, nullptr, nullptr);
  EXPECT_TRUE(eventually([&] { return readiness.is_ready(); }));
  readiness.lose("the engine has stopped");
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(readiness.reason(), "the engine has stopped");
  EXPECT_EQ(num_checks, 1);
}

TEST(ReadinessKeeper, EndsInMidPause) {
  Readiness readiness;
  ScriptedCheck check;
  check.passes = false;
  check.may_end.release();
  const auto start = std::chrono::steady_clock::now();
  {
    const ReadinessKeeper keeper(readiness, std::ref(check), {.first_pause_s = 100, .longest_pause_s = 100}, nullptr,
                                 nullptr);
    EXPECT_TRUE(eventually([&] { return readiness.reason() == "other tokens"; }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 50s);
}

}  // namespace
}  // namespace firstlight::server
