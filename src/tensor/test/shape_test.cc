// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <gtest/gtest.h>

namespace firstlight::tensor {
namespace {

TEST(Dim, PrintsAndParsesBack) {
  for (const char* text : {"0", "576", "T", "4T", "O", "2S", "N", "G4", "3G128"}) {
    const auto dim = Dim::parse(text);
    ASSERT_TRUE(dim.has_value()) << text;
    EXPECT_EQ(dim->to_string(), text);
  }
  for (const char* text : {"", "-1", "X", "T4", "1.5", "99999999999999999999", "G", "G0", "G-4", "xG4", "4GG4"})
    EXPECT_FALSE(Dim::parse(text)) << text;
}

TEST(Dim, ResolvesAgainstTheBatch) {
  const SymbolValues values{.tokens = 7, .outputs = 2};
  EXPECT_EQ(Dim(4, Symbol::kTokens).at(values), 28);
  EXPECT_EQ(Dim(3).at(values), 3);
  EXPECT_EQ(num_elements({Dim(1, Symbol::kOutputs), 5}, values), 10);
}

TEST(Dim, GroupsAreCountedByRate) {
  SymbolValues values{.tokens = 10, .outputs = 0, .sequences = 2};
  EXPECT_EQ(Dim::groups(4).at(values), 4);  // 3 tokens may wait in both sequences: 16 / 4
  EXPECT_EQ(Dim::groups(1).at(values), 10);
  EXPECT_EQ(Dim::groups(128).at(values), 2);
  EXPECT_TRUE(values.set_groups(4, 3));
  EXPECT_TRUE(values.set_groups(128, 0));
  EXPECT_EQ(num_elements({Dim::groups(4), 5}, values), 15);
  EXPECT_EQ(Dim::groups(128).at(values), 0);
  EXPECT_EQ(Dim::groups(2).at(values), 6);
  EXPECT_NE(Dim::groups(4), Dim::groups(128));
  EXPECT_EQ(dim_product({Dim::groups(4), 3}).value().to_string(), "3G4");
  for (int64_t rate = 10; rate < 10 + SymbolValues::kMaxRates - 2; ++rate) EXPECT_TRUE(values.set_groups(rate, 1));
  EXPECT_FALSE(values.set_groups(99, 1));
  EXPECT_TRUE(values.set_groups(4, 2));
}

TEST(Shape, ProductKeepsOneSymbol) {
  EXPECT_EQ(dim_product({Dim(2, Symbol::kTokens), 3}), Dim(6, Symbol::kTokens));
  EXPECT_FALSE(dim_product({Dim(1, Symbol::kTokens), Dim(1, Symbol::kOutputs)}).has_value());
  EXPECT_EQ(dim_product({}), Dim(1));
}

}  // namespace
}  // namespace firstlight::tensor
