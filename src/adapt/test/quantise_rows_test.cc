// SPDX-License-Identifier: Apache-2.0
// Codes against values written down by hand, ties and ends of the ranges, and rows that do not come out even.
#include "adapt/quantise_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <tuple>

#include "tensor/codec.h"

namespace firstlight::adapt {
namespace {

template <typename T>
T at(const std::vector<std::byte>& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

TEST(QuantiseRows, Int4) {
  const RowFormat format{.format = QuantFormat::kInt4, .columns = 9, .group = 9};
  const QuantisedRows out = quantise_rows(format, std::vector<float>{7.5F, 0, -7.5F, 1, -1, 2.5F, 3.5F, 0.49F, -2});
  // Scale 1; -7.5 rounds to -8, 7.5 would be 8 and is 7; ties go to even. Codes are 8 more, the first lowest.
  EXPECT_EQ(out.values, (std::vector<float>{7, 0, -8, 1, -1, 2, 4, 0, -2}));
  EXPECT_EQ(at<uint32_t>(out.codes, 0), 0x8CA79'08Fu);
  EXPECT_EQ(at<uint32_t>(out.codes, 1), 0x6u) << "the rest of the last word is 0";
  EXPECT_EQ(out.codes.size(), 8u);
  EXPECT_EQ(at<uint16_t>(out.scales, 0), 0x3f80);
}

TEST(QuantiseRows, Int8InGroups) {
  const RowFormat format{.format = QuantFormat::kInt8, .columns = 4, .group = 2};
  const QuantisedRows out = quantise_rows(format, std::vector<float>{127.5F, -127.5F, 0, 0});
  EXPECT_EQ(at<uint32_t>(out.codes, 0), 0x808000ffu);
  EXPECT_EQ(at<uint16_t>(out.scales, 1), 0x3f80) << "zeros have a scale of 1";
  EXPECT_EQ(out.values, (std::vector<float>{127, -128, 0, 0}));
}

TEST(QuantiseRows, Fp8BlocksWithTails) {
  const RowFormat format{.format = QuantFormat::kFp8, .columns = 130, .group = 128};
  std::vector<float> rows(131 * 130, 0.5F);
  rows[129] = 448;                 // block 0, 1
  rows[128 * 130] = -7;            // block 1, 0
  rows[130 * 130 + 129] = 0.125F;  // block 1, 1
  const QuantisedRows out = quantise_rows(format, rows);
  ASSERT_EQ(out.scales.size(), 16u);
  EXPECT_EQ(at<float>(out.scales, 0), 0.5F / 448);
  EXPECT_EQ(at<float>(out.scales, 1), 1);
  EXPECT_EQ(at<float>(out.scales, 2), 7.0F / 448);
  EXPECT_EQ(at<uint8_t>(out.codes, 0), 0x7e) << "the largest, 448";
  EXPECT_EQ(at<uint8_t>(out.codes, 128 * 130), 0xfe);
  EXPECT_EQ(out.values[129], 448);
  EXPECT_EQ(at<uint8_t>(out.codes, 128), 0x30) << "0.5";
}

TEST(QuantiseRows, Fp8RoundsTiesToEven) {
  const RowFormat format{.format = QuantFormat::kFp8, .columns = 4, .group = 128};
  const QuantisedRows out = quantise_rows(format, std::vector<float>{448, 17, 19, 0x1p-10F});
  EXPECT_EQ(out.values, (std::vector<float>{448, 16, 20, 0}));
}

TEST(QuantiseRows, Mxfp4) {
  const RowFormat format{.format = QuantFormat::kMxfp4, .columns = 32, .group = 32};
  std::vector<float> row(32, 0);
  row[0] = 7.9F;  // beyond 6 after the scale of 1: it stays 6
  row[1] = -0.75F;
  row[2] = 2.5F;
  row[3] = 5;
  const QuantisedRows out = quantise_rows(format, row);
  EXPECT_EQ(at<uint8_t>(out.scales, 0), 127);
  EXPECT_EQ(out.values[0], 6);
  EXPECT_EQ(out.values[1], -1);
  EXPECT_EQ(out.values[2], 2);
  EXPECT_EQ(out.values[3], 4);
  EXPECT_EQ(at<uint8_t>(out.codes, 0), 0xA7);
  EXPECT_EQ(at<uint8_t>(out.codes, 1), 0x64);
}

// Every value of the small floats is its own code, and between two neighbours the nearer one is taken.
TEST(QuantiseRows, SmallFloatsWhole) {
  for (const auto& [kind, last, group] : {std::tuple(QuantFormat::kFp8, 0x7e, 128), {QuantFormat::kMxfp4, 7, 32}}) {
    const auto decode = kind == QuantFormat::kFp8 ? &tensor::f8e4m3_to_f32 : &tensor::f4e2m1_to_f32;
    for (int code = 0; code < last; ++code) {
      const float low = decode(static_cast<uint8_t>(code)), high = decode(static_cast<uint8_t>(code + 1));
      const float most = decode(static_cast<uint8_t>(last));
      std::vector<float> row(static_cast<size_t>(group), most);  // a scale of 1
      row[0] = low;
      row[1] = -std::nextafter((low + high) / 2, 0.0F);
      row[2] = (low + high) / 2;
      row[3] = std::nextafter((low + high) / 2, 1e9F);
      const QuantisedRows out = quantise_rows({.format = kind, .columns = group, .group = group}, row);
      EXPECT_EQ(out.values[0], low) << code;
      EXPECT_EQ(out.values[1], -low) << code;
      EXPECT_EQ(out.values[2], code % 2 == 0 ? low : high) << code;
      EXPECT_EQ(out.values[3], high) << code;
      const uint8_t first = at<uint8_t>(out.codes, 0);
      EXPECT_EQ(kind == QuantFormat::kFp8 ? first : first & 15, code);
      EXPECT_EQ(first >> 4, kind == QuantFormat::kMxfp4 ? code | 8 : first >> 4) << "the second column";
    }
  }
}

TEST(QuantiseRows, NoValueIsFurtherOffThanAHalfStep) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 1);
  for (const QuantFormat kind : {QuantFormat::kInt4, QuantFormat::kInt8}) {
    const RowFormat format{.format = kind, .columns = 70, .group = 70};
    std::vector<float> rows(70 * 7);
    for (float& value : rows) value = normal(random);
    const QuantisedRows out = quantise_rows(format, rows);
    for (size_t r = 0; r < 7; ++r) {
      float most = 0;
      for (size_t c = 0; c < 70; ++c) most = std::max(most, std::abs(rows[r * 70 + c]));
      const float step = most / (kind == QuantFormat::kInt4 ? 7.5F : 127.5F);
      for (size_t c = 0; c < 70; ++c) EXPECT_LE(std::abs(out.values[r * 70 + c] - rows[r * 70 + c]), 0.53F * step);
    }
  }
}

}  // namespace
}  // namespace firstlight::adapt
