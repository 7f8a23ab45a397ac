// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/file_map.h"
#include "base/json.h"

namespace firstlight {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(Trace, InnerTimeIsCountedOnce) {
  Trace trace;
  const int64_t start = now_ns();
  {
    StepTimer outer(&trace, "load", StepClass::kIo);
    sleep_ms(5);
    {
      StepTimer inner(&trace, "convert", StepClass::kMemory);
      sleep_ms(20);
    }
  }
  const int64_t wall = now_ns() - start;
  const ClassTotal io = trace.total(StepClass::kIo);
  const ClassTotal memory = trace.total(StepClass::kMemory);
  EXPECT_EQ(io.count, 1);
  EXPECT_EQ(memory.count, 1);
  EXPECT_GE(memory.self_ns, 20'000'000);
  EXPECT_GE(io.self_ns, 5'000'000);
  EXPECT_LE(io.self_ns + memory.self_ns, wall);
  EXPECT_EQ(trace.total(StepClass::kCompute).count, 0);
  EXPECT_TRUE(trace.events().empty()) << "events are kept on request only";
}

TEST(Trace, TimersOfDifferentTracesDoNotMix) {
  Trace first, second;
  {
    StepTimer outer(&first, "a", StepClass::kCompute);
    StepTimer inner(&second, "b", StepClass::kCompute);
    sleep_ms(5);
  }
  EXPECT_GE(first.total(StepClass::kCompute).self_ns, 5'000'000);
  EXPECT_GE(second.total(StepClass::kCompute).self_ns, 5'000'000);
}

TEST(Trace, NullTraceAndEarlyStop) {
  StepTimer none(nullptr, "nothing", StepClass::kCompute);
  none.stop();
  Trace trace;
  StepTimer timer(&trace, "once", StepClass::kCompute);
  timer.stop();
  timer.stop();
  EXPECT_EQ(trace.total(StepClass::kCompute).count, 1);
}

TEST(Trace, ChromeTraceHoldsEveryEventOfEveryThread) {
  Trace trace({.keep_events = true});
  auto work = [&trace] {
    for (int i = 0; i < 100; ++i) StepTimer timer(&trace, "step \"q\"", StepClass::kCommunication);
  };
  std::thread other(work);
  work();
  other.join();
  const std::string path = ::testing::TempDir() + "fl_trace.json";
  ASSERT_TRUE(trace.write_chrome_trace(path).ok());
  const Json document = parse_json(read_text_file(path).value()).value();
  const Json& events = document["traceEvents"];
  ASSERT_EQ(events.size(), 200u);
  EXPECT_EQ(events[0]["name"], "step \"q\"");
  EXPECT_EQ(events[0]["cat"], "communication");
  EXPECT_EQ(events[0]["ph"], "X");
  bool two_threads = false;
  for (const auto& event : events) two_threads |= event["tid"] != events[0]["tid"];
  EXPECT_TRUE(two_threads);
}

TEST(Trace, EventsAreBoundedAndDropsAreCounted) {
  Trace trace({.keep_events = true, .max_events = 3});
  for (int i = 0; i < 10; ++i) StepTimer timer(&trace, "x", StepClass::kCompute);
  EXPECT_EQ(trace.events().size(), 3u);
  EXPECT_EQ(trace.num_dropped(), 7);
  EXPECT_EQ(trace.total(StepClass::kCompute).count, 10);
}

TEST(Trace, ClassNames) {
  EXPECT_EQ(step_class_name(StepClass::kCompute), "compute");
  EXPECT_EQ(step_class_name(StepClass::kIo), "io");
}

}  // namespace
}  // namespace firstlight
