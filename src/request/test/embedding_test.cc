// SPDX-License-Identifier: Apache-2.0
#include "request/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace firstlight::request {
namespace {

std::vector<float> pooled(Pooling pooling, const std::vector<std::vector<float>>& rows, int64_t begin = 0) {
  Pooler pooler(pooling);
  pooler.add(0, std::vector<float>{100, 100});  // a text that was begun and put out
  for (size_t i = 0; i < rows.size(); ++i) pooler.add(begin + static_cast<int64_t>(i), rows[i]);
  return pooler.result();
}

TEST(Pooling, TakesLastMeanOrFirstRow) {
  const std::vector<std::vector<float>> rows = {{1, 2}, {3, 4}, {8, 0}};
  EXPECT_EQ(pooled(Pooling::kLast, rows), (std::vector<float>{8, 0}));
  EXPECT_EQ(pooled(Pooling::kFirst, rows), (std::vector<float>{1, 2}));
  EXPECT_EQ(pooled(Pooling::kMean, rows), (std::vector<float>{4, 2}));
}

TEST(Pooling, WordsAreReadAndRefused) {
  EXPECT_EQ(*parse_pooling("cls"), Pooling::kFirst);
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean, Pooling::kFirst}) {
    EXPECT_EQ(*parse_pooling(pooling_name(pooling)), pooling);
  }
  EXPECT_NE(parse_pooling("max").status().message().find("'max'"), std::string::npos);
}

TEST(FinishEmbedding, CutsThenDividesByTheLength) {
  std::vector<float> vector = {3, 4, 12};
  ASSERT_TRUE(finish_embedding(vector, 2, true).ok());
  EXPECT_FLOAT_EQ(vector[0], 0.6f);
  EXPECT_FLOAT_EQ(vector[1], 0.8f);
  vector = {3, 4};
  ASSERT_TRUE(finish_embedding(vector, 0, false).ok());
  EXPECT_EQ(vector, (std::vector<float>{3, 4}));
  vector = {0, 0};
  ASSERT_TRUE(finish_embedding(vector, 0, true).ok());
  EXPECT_EQ(vector, (std::vector<float>{0, 0}));
  vector = {1, std::numeric_limits<float>::infinity()};
  EXPECT_FALSE(finish_embedding(vector, 0, true).ok());
}

}  // namespace
}  // namespace firstlight::request
