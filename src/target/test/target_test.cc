// SPDX-License-Identifier: Apache-2.0
#include "target/target.h"

#include <gtest/gtest.h>

namespace firstlight::target {
namespace {

TEST(Target, FeaturesReadBack) {
  const Features some{kAvx2 | kAvx512Vnni};
  EXPECT_EQ(features_to_string(some), "avx2 avx512_vnni");
  EXPECT_EQ(parse_features("avx2 avx512_vnni").value().bits, some.bits);
  EXPECT_EQ(parse_features("").value().bits, 0u);
  EXPECT_EQ(parse_features("avx2 sse9").status().message(), "CPU feature 'sse9' is not known");
}

TEST(Target, HasMeansAllOfThem) {
  const Features has{kAvx2 | kAvx512};
  EXPECT_TRUE(has.has({kAvx2}));
  EXPECT_TRUE(has.has({}));
  EXPECT_FALSE(has.has({kAvx512 | kAvx512Bf16}));
}

}  // namespace
}  // namespace firstlight::target
