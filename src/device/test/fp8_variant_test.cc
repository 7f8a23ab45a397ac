// SPDX-License-Identifier: Apache-2.0
#include "device/fp8_variant.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "tensor/codec.h"

namespace firstlight::device {
namespace {

TEST(Fp8Variant, EveryCodeKeepsItsProduct) {
  std::array<uint8_t, 256> codes;
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  std::array<float, 2> scales = {0.37f, 1e-30f};
  const auto old_scales = scales;
  convert_e4m3fn_to_fnuz(codes, scales);
  for (size_t i = 0; i < 256; ++i) {
    const float before = tensor::f8e4m3_to_f32(static_cast<uint8_t>(i));
    const float after = e4m3fnuz_to_f32(codes[i]);
    if (std::isnan(before)) {
      EXPECT_TRUE(std::isnan(after)) << i;
      EXPECT_EQ(codes[i], 0x80);
      continue;
    }
    EXPECT_FALSE(std::isnan(after)) << i;
    for (size_t s = 0; s < 2; ++s) EXPECT_EQ(before * old_scales[s], after * scales[s]) << i;
  }
  EXPECT_EQ(codes[0x80], 0);  // negative zero would be NaN
}

TEST(Fp8Variant, TheLargestIs240) {
  EXPECT_EQ(e4m3fnuz_to_f32(0x7f), 240.0f);
  EXPECT_EQ(e4m3fnuz_to_f32(0xff), -240.0f);
  EXPECT_EQ(e4m3fnuz_to_f32(0x7e), 224.0f);
  EXPECT_EQ(e4m3fnuz_to_f32(0x01), std::ldexp(1.0f, -10));
  EXPECT_TRUE(std::isnan(e4m3fnuz_to_f32(0x80)));
}

}  // namespace
}  // namespace firstlight::device
