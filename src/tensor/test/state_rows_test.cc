// SPDX-License-Identifier: Apache-2.0
#include "tensor/state_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace firstlight::tensor {
namespace {

constexpr DType kBlocks[] = {DType::kQ8_0, DType::kMXFP8, DType::kQ4_1, DType::kQ4_1S};

std::vector<std::byte> encoded(DType type, std::span<const float> row) {
  std::vector<std::byte> bytes(static_cast<size_t>(state_row_bytes(type, static_cast<int64_t>(row.size()))));
  EXPECT_TRUE(encode_row(type, row, bytes).ok());
  return bytes;
}

std::vector<float> decoded(DType type, std::span<const std::byte> bytes, size_t width) {
  std::vector<float> row(width);
  EXPECT_TRUE(decode_row(type, bytes, row).ok());
  return row;
}

std::vector<float> normal_row(size_t width, float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> row(width);
  for (float& v : row) v = normal(random);
  return row;
}

// The most that element i may be off, written from the formats' definitions alone.
double allowed(DType type, std::span<const float> row, size_t i) {
  const size_t size = type == DType::kQ4_1S ? 16 : 32;
  const auto block = row.subspan(i / size * size, std::min(size, row.size() - i / size * size));
  double most = 0, low = static_cast<double>(block[0]), high = low;
  for (const float x : block) {
    const auto v = static_cast<double>(x);
    most = std::max(most, std::fabs(v));
    low = std::min(low, v);
    high = std::max(high, v);
  }
  const double rounded = 1 + 0x1p-10;  // of the scale
  if (type == DType::kQ8_0) return most / 127 / 2 * rounded;
  if (type == DType::kQ4_1S || type == DType::kQ4_1) return (high - low) / 15 / 2 * rounded + 0x1p-10 * std::fabs(low);
  const double d = std::exp2(std::ceil(std::log2(most / 448)));
  return std::max(0x1p-4 * std::fabs(static_cast<double>(row[i])), 0x1p-10 * d);
}

TEST(StateRows, StayWithinHalfAStep) {
  for (const DType type : kBlocks) {
    for (const size_t width : {32u, 64u, 576u, 8u, 40u, 80u}) {
      for (const float scale : {1.0f, 1e-2f, 300.0f}) {
        const auto row = normal_row(width, scale, static_cast<uint32_t>(width));
        const auto back = decoded(type, encoded(type, row), width);
        for (size_t i = 0; i < width; ++i) {
          EXPECT_LE(std::fabs(static_cast<double>(back[i]) - static_cast<double>(row[i])), allowed(type, row, i))
              << dtype_name(type) << " width " << width << " element " << i;
        }
      }
    }
  }
}

TEST(StateRows, WhatWasDecodedIsEncodedAsItWas) {
  for (const DType type : kBlocks) {
    const auto row = normal_row(192, 3, 7);
    const auto bytes = encoded(type, row);
    const auto back = decoded(type, bytes, row.size());
    EXPECT_EQ(decoded(type, encoded(type, back), row.size()), back) << dtype_name(type);
  }
}

TEST(StateRows, KnownBlocks) {
  std::vector<float> row(32, 0.0f);
  row[0] = 127, row[1] = -64, row[31] = 2.5f;
  const auto q8 = encoded(DType::kQ8_0, row);
  EXPECT_EQ(q8[0], std::byte{0x00});  // 1.0 as a half
  EXPECT_EQ(q8[1], std::byte{0x3c});
  EXPECT_EQ(q8[2], std::byte{127});
  EXPECT_EQ(q8[3], std::byte{static_cast<unsigned char>(-64)});
  EXPECT_EQ(q8[33], std::byte{2});  // 2.5 to even
  row[0] = 448, row[1] = -1.0625f;
  const auto f8 = encoded(DType::kMXFP8, row);
  EXPECT_EQ(f8[0], std::byte{127});
  EXPECT_EQ(f8[1], std::byte{0x7e});
  EXPECT_EQ(f8[2], std::byte{0xb8});  // -1: -1.0625 lies between -1 and -1.125, to even
  row[0] = 449;
  EXPECT_EQ(encoded(DType::kMXFP8, row)[0], std::byte{128});
  row.assign(32, 1.0f);
  row[3] = 16;
  const auto q4 = encoded(DType::kQ4_1S, row);  // d = 1, m = 1; the other half d = 0, m = 1
  EXPECT_EQ(q4[1], std::byte{0x3c});
  EXPECT_EQ(q4[3], std::byte{0x3c});
  EXPECT_EQ(q4[5], std::byte{0});
  EXPECT_EQ(q4[11], std::byte{15});
  EXPECT_EQ(decoded(DType::kQ4_1S, q4, 32), row);
}

TEST(StateRows, WhatIsNoNumberSpoilsItsBlockAlone) {
  for (const DType type : kBlocks) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3.4e38f}) {
      auto row = normal_row(96, 1, 3);
      row[40] = bad;
      const auto back = decoded(type, encoded(type, row), row.size());
      const size_t size = type == DType::kQ4_1S ? 16 : 32;
      for (size_t i = 0; i < row.size(); ++i) {
        EXPECT_EQ(std::isnan(back[i]), i / size == 40 / size) << dtype_name(type) << " " << bad << " " << i;
      }
    }
  }
}

TEST(StateRows, ZerosAndTinyNumbers) {
  for (const DType type : kBlocks) {
    std::vector<float> row(64, 0.0f);
    EXPECT_EQ(decoded(type, encoded(type, row), 64), row);
    row.assign(64, 1e-12f);
    for (const float v : decoded(type, encoded(type, row), 64)) EXPECT_NEAR(v, 0, 1.1e-12);
  }
}

TEST(StateRows, Sizes) {
  EXPECT_EQ(state_row_bytes(DType::kF16, 40), 80);
  EXPECT_EQ(state_row_bytes(DType::kQ8_0, 40), 68);
  EXPECT_EQ(state_row_bytes(DType::kQ4_1S, 64), 48);
  std::vector<std::byte> few(10);
  const std::vector<float> row(32, 1.0f);
  EXPECT_EQ(encode_row(DType::kQ8_0, row, few).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(encode_row(DType::kQ4_K, row, few).code(), StatusCode::kUnsupported);
  std::vector<float> back(40);
  EXPECT_EQ(decode_row(DType::kQ8_0, few, back).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace firstlight::tensor
