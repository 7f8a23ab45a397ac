// SPDX-License-Identifier: Apache-2.0
#include "gates/load_watch.h"

#include <gtest/gtest.h>

namespace firstlight::gates {
namespace {

TEST(LoadWatch, ReadsTheLineOfAllCores) {
  const CoreTime time = parse_core_time("cpu  100 20 30 400 50 1 2 3 7 7", 10);
  EXPECT_DOUBLE_EQ(time.total_s, 60.6);
  EXPECT_DOUBLE_EQ(time.busy_s, 15.6);
  EXPECT_EQ(parse_core_time("intr 5", 10).total_s, 0);
  EXPECT_EQ(parse_core_time("", 10).total_s, 0);
}

TEST(LoadWatch, TheShareOfOthersLeavesOutOneself) {
  const CoreTime before{.busy_s = 10, .total_s = 100, .own_s = 4};
  EXPECT_DOUBLE_EQ(others_share(before, {.busy_s = 18, .total_s = 120, .own_s = 6}), 0.3);
  EXPECT_DOUBLE_EQ(others_share(before, {.busy_s = 12, .total_s = 120, .own_s = 6.5}), 0) << "clocks of other grain";
  EXPECT_DOUBLE_EQ(others_share(before, before), 0);
  EXPECT_GT(core_time().total_s, 0);
}

}  // namespace
}  // namespace firstlight::gates
