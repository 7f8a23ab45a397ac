// SPDX-License-Identifier: Apache-2.0
// The attributes of fake_quant, decoded; shared by its bodies.
#pragma once

#include <memory>
#include <string>

#include "kernels/kernel.h"

namespace firstlight::kernels {

enum class SmallFormat : uint8_t { kE4M3, kE5M2, kE2M1, kInt8, kInt4 };
enum class ScaleFormat : uint8_t { kF32, kUe8m0, kE4M3 };

inline float largest_of(SmallFormat format) {
  constexpr float kLargest[] = {448.0f, 57344.0f, 6.0f, 127.0f, 7.0f};
  return kLargest[static_cast<size_t>(format)];
}

struct FakeQuantOptions final : Prepared {
  SmallFormat format = SmallFormat::kE4M3;
  ScaleFormat scale_format = ScaleFormat::kF32;
  int64_t block = 0;
  float scale = 0;
  float least = 0;
};

inline Result<std::unique_ptr<Prepared>> prepare_fake_quant(const PrepareInput& input) {
  const ops::Attributes& attributes = input.signature.attributes;
  auto options = std::make_unique<FakeQuantOptions>();
  constexpr std::string_view kFormats[] = {"e4m3", "e5m2", "e2m1", "int8", "int4"};
  constexpr std::string_view kScales[] = {"f32", "ue8m0", "e4m3"};
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    if (attributes.get_string("format") == kFormats[i]) options->format = static_cast<SmallFormat>(i);
  }
  for (size_t i = 0; i < std::size(kScales); ++i) {
    if (attributes.get_string("scale_format") == kScales[i]) options->scale_format = static_cast<ScaleFormat>(i);
  }
  options->block = attributes.get_int("block");
  options->scale = static_cast<float>(attributes.get_float("scale"));
  options->least = static_cast<float>(attributes.get_float("least"));
  return std::unique_ptr<Prepared>(std::move(options));
}

}  // namespace firstlight::kernels
