// SPDX-License-Identifier: Apache-2.0
#include "tensor/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace firstlight::tensor {
namespace {

// The value of a small IEEE-like float, from its definition and in double: (-1)^s 2^(e - bias) 1.m, or 0.m at e = 0.
// `has_infinity`: the largest exponent means infinity and NaN.
double formula(unsigned bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int exponent_mask = (1 << exponent_bits) - 1;
  const int mantissa_mask = (1 << mantissa_bits) - 1;
  const int mantissa = static_cast<int>(bits) & mantissa_mask;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & exponent_mask;
  const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1.0 : 1.0;
  const int bias = exponent_mask / 2;
  if (has_infinity && exponent == exponent_mask) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + mantissa_mask + 1, exponent - bias - mantissa_bits);
}

void expect_same(float found, double wanted, unsigned code) {
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(found)) << "code " << code;
  } else {
    EXPECT_EQ(static_cast<double>(found), wanted) << "code " << code;
    EXPECT_EQ(std::signbit(found), std::signbit(wanted)) << "code " << code;
  }
}

// All codes of a type of `bytes` bytes, through the vector path and with a tail.
std::vector<float> decode_every_code(DType type, unsigned num_codes) {
  const size_t width = num_codes > 256 ? 2 : 1;
  std::vector<std::byte> bytes(num_codes * width);
  for (unsigned i = 0; i < num_codes; ++i) std::memcpy(bytes.data() + i * width, &i, width);
  std::vector<float> out(num_codes);
  EXPECT_TRUE(decode_to_f32(type, bytes, out).ok());
  return out;
}

TEST(Codec, EveryF16) {
  const std::vector<float> all = decode_every_code(DType::kF16, 65536);
  for (unsigned i = 0; i < 65536; ++i) {
    const double wanted = formula(i, 5, 10, true);
    expect_same(f16_to_f32(static_cast<uint16_t>(i)), wanted, i);
    expect_same(all[i], wanted, i);
    if (!std::isnan(wanted)) {
      EXPECT_EQ(f32_to_f16(all[i]), i);
    }
  }
}

TEST(Codec, EveryBf16) {
  const std::vector<float> all = decode_every_code(DType::kBF16, 65536);
  for (unsigned i = 0; i < 65536; ++i) {
    const double wanted = formula(i, 8, 7, true);
    expect_same(bf16_to_f32(static_cast<uint16_t>(i)), wanted, i);
    expect_same(all[i], wanted, i);
    if (!std::isnan(wanted)) {
      EXPECT_EQ(f32_to_bf16(all[i]), i);
    } else {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(all[i]))));
    }
  }
}

TEST(Codec, EveryF8) {
  const std::vector<float> e4m3 = decode_every_code(DType::kF8E4M3, 256);
  const std::vector<float> e5m2 = decode_every_code(DType::kF8E5M2, 256);
  const std::vector<float> e8m0 = decode_every_code(DType::kF8E8M0, 256);
  for (unsigned i = 0; i < 256; ++i) {
    const double wanted4 = (i & 127) == 127 ? std::nan("") : formula(i, 4, 3, false);
    const double wanted5 = formula(i, 5, 2, true);
    const double wanted8 = i == 255 ? std::nan("") : std::ldexp(1.0, static_cast<int>(i) - 127);
    const auto code = static_cast<uint8_t>(i);
    expect_same(e4m3[i], wanted4, i);
    expect_same(e5m2[i], wanted5, i);
    expect_same(e8m0[i], wanted8, i);
    expect_same(f8e4m3_to_f32(code), wanted4, i);
    expect_same(f8e5m2_to_f32(code), wanted5, i);
    expect_same(f8e8m0_to_f32(code), wanted8, i);
  }
  EXPECT_EQ(f8e4m3_to_f32(0x7e), 448.0f);
  EXPECT_EQ(f8e5m2_to_f32(0x7b), 57344.0f);
}

TEST(Codec, EveryF4LowNibbleFirst) {
  const float wanted[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  std::vector<std::byte> bytes;
  for (int i = 0; i < 16; i += 2) bytes.push_back(static_cast<std::byte>(i | (i + 1) << 4));
  std::vector<float> out(16);
  ASSERT_TRUE(decode_to_f32(DType::kF4E2M1, bytes, out).ok());
  for (unsigned i = 0; i < 16; ++i) {
    expect_same(out[i], wanted[i], i);
    expect_same(f4e2m1_to_f32(static_cast<uint8_t>(i)), wanted[i], i);
  }
}

template <typename T>
void expect_integers(DType type, std::vector<T> values) {
  std::vector<float> out(values.size());
  ASSERT_TRUE(decode_to_f32(type, std::as_bytes(std::span(values)), out).ok());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(out[i], static_cast<float>(values[i])) << dtype_name(type);
}

TEST(Codec, IntegersConvertByValue) {
  expect_integers<int8_t>(DType::kI8, {-128, -1, 0, 127});
  expect_integers<uint8_t>(DType::kU8, {0, 128, 255});
  expect_integers<int16_t>(DType::kI16, {-32768, -1, 32767});
  expect_integers<uint16_t>(DType::kU16, {0, 65535});
  expect_integers<int32_t>(DType::kI32, {-2147483647 - 1, 16777217, 5});
  expect_integers<uint32_t>(DType::kU32, {0, 4294967295u});
  expect_integers<int64_t>(DType::kI64, {std::numeric_limits<int64_t>::min(), -3});
  expect_integers<uint64_t>(DType::kU64, {std::numeric_limits<uint64_t>::max(), 3});
  expect_integers<double>(DType::kF64, {1.0 / 3, -2.5});
  const std::vector<std::byte> bools{std::byte{0}, std::byte{1}, std::byte{7}};
  std::vector<float> out(3);
  ASSERT_TRUE(decode_to_f32(DType::kBool, bools, out).ok());
  EXPECT_EQ(out, (std::vector<float>{0, 1, 1}));
}

// The code whose value is nearest, the even one at a tie, found by looking at both neighbours in double.
uint16_t nearest_code(float value, int exponent_bits, int mantissa_bits) {
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  const unsigned infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  unsigned low = 0;
  unsigned high = infinity;
  while (high - low > 1) {  // value(low) <= magnitude, codes grow with their values
    const unsigned middle = (low + high) / 2;
    (formula(middle, exponent_bits, mantissa_bits, true) <= magnitude ? low : high) = middle;
  }
  const double below = formula(low, exponent_bits, mantissa_bits, true);
  // One step past the largest finite value stands for infinity, as IEEE 754 rounds.
  const double above = high == infinity ? below + (below - formula(low - 1, exponent_bits, mantissa_bits, true))
                                        : formula(high, exponent_bits, mantissa_bits, true);
  const double to_low = magnitude - below;
  const double to_high = above - magnitude;
  const bool up = to_high < to_low || (to_high == to_low && low % 2 == 1);
  return static_cast<uint16_t>(sign | (up ? high : low));
}

TEST(Codec, EncodingRoundsToNearestEven) {
  std::mt19937 random(7);
  std::vector<float> values = {0.0f,           -0.0f,          65504.0f,      65519.996f,
                               65520.0f,       5.9604645e-8f,  2.9802322e-8f, 2.98023259e-8f,
                               1.00048828125f, 1.00146484375f, 1e-45f,        std::numeric_limits<float>::max()};
  for (int i = 0; i < 20000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) values.push_back(value);
    values.push_back(std::ldexp(static_cast<float>(random()) - 2147483648.0f, -static_cast<int>(random() % 60)));
    // A tie of f16, or next to one.
    const auto code = static_cast<uint16_t>(random() % 0x7bff);
    const float middle = (f16_to_f32(code) + f16_to_f32(static_cast<uint16_t>(code + 1))) / 2;
    values.insert(values.end(), {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)});
    // A tie of bf16.
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random() % 0x7f7f) << 16 | 0x8000));
  }
  std::vector<uint16_t> f16(values.size());
  std::vector<uint16_t> bf16(values.size());
  ASSERT_TRUE(encode_from_f32(DType::kF16, values, std::as_writable_bytes(std::span(f16))).ok());
  ASSERT_TRUE(encode_from_f32(DType::kBF16, values, std::as_writable_bytes(std::span(bf16))).ok());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(f16[i], nearest_code(values[i], 5, 10)) << values[i];
    ASSERT_EQ(bf16[i], nearest_code(values[i], 8, 7)) << values[i];
    ASSERT_EQ(f32_to_f16(values[i]), f16[i]);
  }
}

TEST(Codec, EncodingKeepsNanAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f32_to_f16(infinity), 0x7c00);
  EXPECT_EQ(f32_to_bf16(-infinity), 0xff80);
  for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::bit_cast<float>(bits)))));
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(bits)))));
  }
}

TEST(Codec, WideFormsAreExact) {
  const std::vector<float> values = {1.0f / 3, -0.0f, 1e-45f};
  std::vector<double> wide(3);
  std::vector<float> same(3);
  ASSERT_TRUE(encode_from_f32(DType::kF64, values, std::as_writable_bytes(std::span(wide))).ok());
  ASSERT_TRUE(encode_from_f32(DType::kF32, values, std::as_writable_bytes(std::span(same))).ok());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(wide[i], static_cast<double>(values[i]));
  EXPECT_EQ(same, values);
}

TEST(Codec, SizesAreChecked) {
  std::vector<std::byte> bytes(40);
  std::vector<float> out(32);
  EXPECT_EQ(decode_to_f32(DType::kF32, bytes, out).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_to_f32(DType::kQ8_0, std::span(bytes).first(33), out).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_to_f32(DType::kQ8_0, bytes, std::span(out).first(31)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_to_f32(DType::kF4E2M1, bytes, std::span(out).first(3)).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(decode_to_f32(DType::kQ8_0, bytes, out).ok());
  EXPECT_TRUE(decode_to_f32(DType::kF32, {}, {}).ok());
  EXPECT_EQ(encode_from_f32(DType::kF32, out, bytes).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(encode_from_f32(DType::kQ8_0, out, bytes).code(), StatusCode::kUnsupported);
  EXPECT_EQ(encode_from_f32(DType::kF8E4M3, out, bytes).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace firstlight::tensor
