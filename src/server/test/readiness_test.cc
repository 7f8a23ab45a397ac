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

}  // namespace
}  // namespace firstlight::server
