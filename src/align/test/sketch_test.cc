// SPDX-License-Identifier: Apache-2.0
#include "align/sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace firstlight::align {
namespace {

std::vector<float> draw(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

std::vector<float> sketched(const std::vector<float>& row, size_t projections) {
  std::vector<float> out(projections);
  sketch_row(row, 0x676f6c64, out);
  return out;
}

TEST(Sketch, TellsHowFarRowsAreApart) {
  std::mt19937 random(7);
  const size_t width = 1000, projections = 32, rows = 64;
  for (const float apart : {1.0f, 1e-2f, 1e-5f}) {
    double wanted = 0, found = 0;
    for (size_t r = 0; r < rows; ++r) {
      const auto a = draw(width, random), noise = draw(width, random);
      auto b = a;
      for (size_t i = 0; i < width; ++i) b[i] += apart * noise[i];
      for (size_t i = 0; i < width; ++i) wanted += std::pow(double{b[i]} - double{a[i]}, 2);
      found += estimate_squared_distance(sketched(a, projections), sketched(b, projections));
    }
    // The root of 2 / (32 * 64) is 3.1 %: four times that.
    EXPECT_NEAR(found / wanted, 1, 0.125) << apart;
  }
}

// The numbers are those of tools/record/golden_pack.py: recorders in two languages agree on every sign.
TEST(Sketch, HasTheSignsThatTheFormatSays) {
  std::vector<float> row(130);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i + 1);
  const auto out = sketched(row, 3);
  EXPECT_EQ(out, (std::vector<float>{1119, 515, -335}));
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafu) << "the first number of SplitMix64 with seed 0";
}

// Columns by their place in the whole row: parts add up, wherever a row is cut.
TEST(Sketch, PartsAddUpToTheWhole) {
  std::vector<float> row(200);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 17) - 8;
  for (const std::vector<size_t>& cuts : {std::vector<size_t>{0, 64, 128, 200}, {0, 1, 63, 65, 130, 199, 200}}) {
    std::vector<float> sum(5, 0);
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      std::vector<float> part(5);
      sketch_row(std::span(row).subspan(cuts[c], cuts[c + 1] - cuts[c]), 0x676f6c64, part,
                 static_cast<int64_t>(cuts[c]));
      for (size_t j = 0; j < part.size(); ++j) sum[j] += part[j];
    }
    EXPECT_EQ(sum, sketched(row, 5));
  }
}

TEST(Sketch, ValuesThatAreNotPlainCountAsZero) {
  const std::vector<float> row = {1.0f, 2.0f, 0.0f, 0.0f, 0.0f};
  std::vector<float> wild = row;
  wild[2] = std::numeric_limits<float>::infinity();
  wild[3] = std::numeric_limits<float>::quiet_NaN();
  wild[4] = std::numeric_limits<float>::lowest();
  EXPECT_EQ(sketched(wild, 8), sketched(row, 8));
  EXPECT_FALSE(is_plain(wild[4]));
  EXPECT_TRUE(is_plain(-1e30f));
}

}  // namespace
}  // namespace firstlight::align
