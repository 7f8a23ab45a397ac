// SPDX-License-Identifier: Apache-2.0
// The numbers against the roundings they are derived from, drawn.
#include "tolerance/tolerances.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tensor/codec.h"
#include "tensor/state_rows.h"

namespace firstlight::tolerance {
namespace {

using catalog::ComputeMode;

// Relative root mean square distance that rounding both operands (or x alone) leaves in products of Gaussian rows.
double measured(auto&& round_x, auto&& round_w) {
  constexpr int kColumns = 256, kRows = 400;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  double difference = 0, norm = 0;
  for (int r = 0; r < kRows; ++r) {
    std::vector<float> x(kColumns), w(kColumns);
    for (float& v : x) v = normal(random);
    for (float& v : w) v = normal(random);
    const auto rx = round_x(x), rw = round_w(w);
    double exact = 0, rounded = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      exact += double{x[i]} * double{w[i]};
      rounded += double{rx[i]} * double{rw[i]};
    }
    difference += (exact - rounded) * (exact - rounded);
    norm += exact * exact;
  }
  return std::sqrt(difference / norm);
}

std::vector<float> through(tensor::DType type, const std::vector<float>& x) {
  std::vector<std::byte> bytes(x.size() * 2);
  EXPECT_TRUE(tensor::encode_row(type, x, bytes).ok());
  std::vector<float> out(x.size());
  EXPECT_TRUE(tensor::decode_row(type, bytes, out).ok());
  return out;
}

std::vector<float> int8_blocks(const std::vector<float>& x) {
  std::vector<float> out;
  for (size_t first = 0; first < x.size(); first += 32) {
    float top = 0;
    for (size_t i = first; i < first + 32; ++i) top = std::max(top, std::fabs(x[i]));
    const float scale = top / 127;
    for (size_t i = first; i < first + 32; ++i) out.push_back(std::round(x[i] / scale) * scale);
  }
  return out;
}

// A tolerance a correct kernel fails is a defect; so is one several times above what it is for.
TEST(Tolerances, ARoundedProductIsWithinAndNotFarBelow) {
  const auto plain = [](const std::vector<float>& x) { return x; };
  const auto bf16 = [](const std::vector<float>& x) { return through(tensor::DType::kBF16, x); };
  const double by_bf16 = measured(bf16, bf16), by_int8 = measured(int8_blocks, plain);
  EXPECT_LT(by_bf16, 1.5 * product_rounding(ComputeMode::kBf16));
  EXPECT_GT(by_bf16, product_rounding(ComputeMode::kBf16));
  EXPECT_LT(by_int8, 1.5 * product_rounding(ComputeMode::kInt8));
  EXPECT_GT(by_int8, product_rounding(ComputeMode::kInt8) / 2);
}

TEST(Tolerances, AStoredValueIsWithin) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(4096);
  for (float& v : x) v = normal(random);
  for (const auto type : {tensor::DType::kF16, tensor::DType::kBF16, tensor::DType::kQ8_0, tensor::DType::kMXFP8,
                          tensor::DType::kQ4_1, tensor::DType::kQ4_1S}) {
    const auto y = through(type, x);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      difference += std::pow(double{x[i]} - double{y[i]}, 2);
      norm += double{x[i]} * double{x[i]};
    }
    EXPECT_LT(std::sqrt(5 * difference / norm), 1.6 * state_rounding(type));
    EXPECT_GT(std::sqrt(5 * difference / norm), 0.5 * state_rounding(type));
  }
  EXPECT_EQ(state_rounding(tensor::DType::kF32), 0);
}

TEST(Tolerances, GrowWithRoundingAndDepthAndNeverFallBelowTheFloor) {
  EXPECT_EQ(explained(0, 100), kFloor);
  EXPECT_DOUBLE_EQ(explained(1e-3, 9), kSpread * 3e-3);
  EXPECT_EQ(explained_by(0), kFloor);
  EXPECT_DOUBLE_EQ(explained_by(1e-3), kHonest * 1e-3);
  EXPECT_LT(apart_from_rounded(1e-3), explained_by(1e-3));
  EXPECT_EQ(product_rounding("bf16"), product_rounding(ComputeMode::kBf16));
  EXPECT_EQ(product_rounding("w8a8"), product_rounding(ComputeMode::kInt8));
  EXPECT_EQ(product_rounding(""), product_rounding(ComputeMode::kF32));
}

}  // namespace
}  // namespace firstlight::tolerance
