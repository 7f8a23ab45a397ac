// SPDX-License-Identifier: Apache-2.0
// Rows known whole and rows known by their sketches, against the definitions written out plainly.
#include "gates/golden_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "align/sketch.h"

namespace firstlight::gates {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_row(unsigned seed, size_t width = 400) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(1, 3);
  std::vector<float> row(width);
  for (float& value : row) value = normal(random);
  return row;
}

std::vector<float> shifted(std::vector<float> row, float size) {
  std::mt19937 random(77);
  std::normal_distribution<float> normal(0, size);
  for (float& value : row) value += normal(random);
  return row;
}

// As a pack has it.
GoldenRow sketched(const std::vector<float>& logits, size_t projections) {
  GoldenRow row = whole_row(5, logits);
  row.sketch.resize(projections);
  align::sketch_row(logits, 9, row.sketch);
  row.logits.clear();
  return row;
}

TEST(GoldenRow, MeasuresWhatItSays) {
  const RowResult row =
      compare_row(std::vector<float>{3, 4, 0.5f, -12}, whole_row(7, std::vector<float>{3, 4, 0, -12}), 0, 1);
  EXPECT_EQ(row.position, 7);
  EXPECT_NEAR(row.rel_l2, 0.5 / 13, 1e-12);
  EXPECT_NEAR(row.max_abs, 0.5, 1e-12);
  EXPECT_NEAR(row.cosine, 169 / (13 * std::sqrt(169.25)), 1e-12);
  EXPECT_EQ(row.best, 1);
  EXPECT_EQ(row.found_best, 1);
  EXPECT_NEAR(row.margin, 1 / 6.5, 1e-6);
  const double sum = std::exp(3) + std::exp(4) + 1 + std::exp(-12);
  const double found = sum - 1 + std::exp(0.5);
  EXPECT_TRUE(row.scored);
  EXPECT_NEAR(row.surprise, std::log(sum) - 3, 1e-6);
  EXPECT_NEAR(row.found_surprise, std::log(found) - 3, 1e-6);
  EXPECT_NEAR(row.kl, std::log(found / sum) - 0.5 / sum, 1e-6);
  EXPECT_FALSE(row.estimated);
}

TEST(GoldenRow, WithoutANextTokenNothingIsScored) {
  const auto row = compare_row(random_row(1), whole_row(0, random_row(1)), -1, 1);
  EXPECT_FALSE(row.scored);
  EXPECT_EQ(row.rel_l2, 0);
  EXPECT_EQ(row.kl, 0);
  EXPECT_EQ(row.top5, 1);
}

TEST(GoldenRow, ASketchTellsTheDistanceAboutAsWell) {
  const auto wanted = random_row(1), found = shifted(wanted, 0.3f);
  const RowResult whole = compare_row(found, whole_row(5, wanted), 3, 9);
  const RowResult sketch = compare_row(found, sketched(wanted, 256), 3, 9);
  EXPECT_TRUE(sketch.estimated);
  EXPECT_NEAR(sketch.rel_l2 / whole.rel_l2, 1, 0.3) << "half the root of 2 in 256, four times";
  EXPECT_NEAR(sketch.cosine, whole.cosine, 0.01);
  EXPECT_LE(sketch.kl, whole.kl * (1 + 1e-5)) << "joined outcomes never tell more";
  EXPECT_GT(sketch.kl, 0);
  EXPECT_EQ(sketch.best, whole.best);
  EXPECT_EQ(compare_row(wanted, sketched(wanted, 32), 3, 9).rel_l2, 0);
}

TEST(GoldenRow, ASketchedRowScoresWhatIsAmongItsLargest) {
  auto wanted = random_row(1);
  wanted[17] = 30;
  const RowResult known = compare_row(wanted, sketched(wanted, 8), 17, 9);
  EXPECT_TRUE(known.scored);
  EXPECT_NEAR(known.surprise, known.found_surprise, 1e-6);
  wanted[18] = -30;
  EXPECT_FALSE(compare_row(wanted, sketched(wanted, 8), 18, 9).scored);
}

TEST(GoldenRow, NotANumberIsNoSmallError) {
  const std::vector<float> wanted = {1, 2, 3};
  for (const std::vector<float>& found : {std::vector<float>{1, kNan, 3}, {1, kInf, 3}, {kNan, kNan, kNan}}) {
    EXPECT_FALSE(compare_row(found, whole_row(0, wanted), 1, 9).rel_l2 <= 0.1);
  }
  EXPECT_FALSE(compare_row(std::vector<float>{1, kNan, 3}, sketched(wanted, 4), 1, 9).rel_l2 <= 0.1);
  EXPECT_EQ(compare_row(std::vector<float>{1, kNan, 3}, whole_row(0, wanted), 1, 9).found_best, -1);
}

TEST(GoldenRow, TokensThatMayNotFollowOnBothSidesAreNoDifference) {
  const std::vector<float> wanted = {1, -kInf, 3};
  const RowResult row = compare_row(wanted, whole_row(0, wanted), 2, 9);
  EXPECT_EQ(row.rel_l2, 0);
  EXPECT_EQ(row.kl, 0);
}

TEST(GoldenRow, ARowOfZerosIsComparedAbsolutely) {
  const std::vector<float> zeros = {0, 0};
  EXPECT_DOUBLE_EQ(compare_row(std::vector<float>{3, 4}, whole_row(0, zeros), -1, 1).rel_l2, 5);
  EXPECT_DOUBLE_EQ(compare_row(zeros, whole_row(0, zeros), -1, 1).rel_l2, 0);
}

}  // namespace
}  // namespace firstlight::gates
