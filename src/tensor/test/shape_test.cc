// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <gtest/gtest.h>

namespace firstlight::tensor {
namespace {

TEST(Dim, PrintsAndParsesBack) {
  for (const char* text : {"0", "576", "T", "4T", "O", "2S", "N"}) {
    const auto dim = Dim::parse(text);
    ASSERT_TRUE(dim.has_value()) << text;
    EXPECT_EQ(dim->to_string(), text);
  }
  for (const char* text : {"", "-1", "X", "T4", "1.5", "99999999999999999999"}) EXPECT_FALSE(Dim::parse(text)) << text;
}

TEST(Dim, ResolvesAgainstTheBatch) {
  const SymbolValues values{.tokens = 7, .outputs = 2};
  EXPECT_EQ(Dim(4, Symbol::kTokens).at(values), 28);
  EXPECT_EQ(Dim(3).at(values), 3);
  EXPECT_EQ(num_elements({Dim(1, Symbol::kOutputs), 5}, values), 10);
}

TEST(Shape, ProductKeepsOneSymbol) {
  EXPECT_EQ(dim_product({Dim(2, Symbol::kTokens), 3}), Dim(6, Symbol::kTokens));
  EXPECT_FALSE(dim_product({Dim(1, Symbol::kTokens), Dim(1, Symbol::kOutputs)}).has_value());
  EXPECT_EQ(dim_product({}), Dim(1));
}

}  // namespace
}  // namespace firstlight::tensor
