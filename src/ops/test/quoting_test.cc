// SPDX-License-Identifier: Apache-2.0
#include "ops/quoting.h"

#include <gtest/gtest.h>

namespace firstlight::ops {
namespace {

TEST(Quoting, EscapesWhatWouldEndOrBreakTheText) {
  EXPECT_EQ(quoted_string("plain"), "\"plain\"");
  EXPECT_EQ(quoted_string("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(quoted_string(std::string_view("\n\x7f\0", 3)), "\"\\x0a\\x7f\\x00\"");
  EXPECT_EQ(quoted_string("é"), "\"é\"");
}

}  // namespace
}  // namespace firstlight::ops
