// SPDX-License-Identifier: Apache-2.0
#include "engine/step_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace firstlight::engine {
namespace {

TEST(StepRunner, RunsBesideItsCallerAndTellsHowItEnded) {
  StepRunner runner;
  std::atomic<int> stage = 0;
  for (int i = 0; i < 100; ++i) {
    runner.start([&] {
      while (stage != 2 * i + 1) std::this_thread::yield();
      stage = 2 * i + 2;
      return i % 2 == 0 ? ok_status() : unavailable("odd");
    });
    stage = 2 * i + 1;  // it would wait for ever otherwise
    EXPECT_EQ(runner.wait().ok(), i % 2 == 0);
    EXPECT_EQ(stage, 2 * i + 2);
  }
}

TEST(StepRunner, AnExceptionIsAnError) {
  StepRunner runner;
  runner.start([]() -> Status { throw std::runtime_error("no memory"); });
  const Status status = runner.wait();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("no memory"), std::string::npos);
  runner.start([] { return ok_status(); });
  EXPECT_TRUE(runner.wait().ok());
}

TEST(StepRunner, EndsWithoutEverHavingRun) { StepRunner runner; }

}  // namespace
}  // namespace firstlight::engine
