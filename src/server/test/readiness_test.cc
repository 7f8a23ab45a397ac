// SPDX-License-Identifier: Apache-2.0
#include "server/readiness.h"

#include <gtest/gtest.h>

namespace firstlight::server {
namespace {

TEST(Readiness, StartsNotReadyAndSaysWhy) {
  Readiness readiness;
  EXPECT_FALSE(readiness.is_ready());
  EXPECT_FALSE(readiness.reason().empty());
  readiness.set_ready();
  EXPECT_TRUE(readiness.is_ready());
  EXPECT_EQ(readiness.reason(), "");
  readiness.set_not_ready("");
  EXPECT_FALSE(readiness.is_ready());
  readiness.set_not_ready("golden prompt differs");
  EXPECT_EQ(readiness.reason(), "golden prompt differs");
}

TEST(Readiness, ALossIsForGood) {
  Readiness readiness;
  readiness.set_ready();
  readiness.lose("the engine has stopped");
  EXPECT_FALSE(readiness.is_ready());
  readiness.set_ready();
  readiness.set_not_ready("other");
  readiness.lose("again");
  EXPECT_EQ(readiness.reason(), "the engine has stopped");
}

TEST(Readiness, AFaultLastsUntilALaterCheck) {
  Readiness readiness;
  const uint64_t before = readiness.num_faults();
  readiness.fault("a step failed");
  EXPECT_FALSE(readiness.set_ready_since(before)) << "checked before the fault";
  EXPECT_EQ(readiness.reason(), "a step failed");
  EXPECT_TRUE(readiness.set_ready_since(readiness.num_faults()));
  EXPECT_TRUE(readiness.is_ready());
}

TEST(Readiness, DrainingIsForGood) {
  Readiness readiness;
  readiness.set_ready();
  readiness.drain();
  EXPECT_FALSE(readiness.is_ready());
  readiness.set_ready();
  readiness.set_not_ready("something else");
  EXPECT_EQ(readiness.reason(), "draining");
  EXPECT_TRUE(readiness.is_draining());
}

TEST(Readiness, WaitsForAFaultOrAStop) {
  Readiness readiness;
  readiness.fault("first");
  EXPECT_TRUE(readiness.wait_for_fault(0, {})) << "there was one";
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(readiness.wait_for_fault(1, stop.get_token()));
}

}  // namespace
}  // namespace firstlight::server
