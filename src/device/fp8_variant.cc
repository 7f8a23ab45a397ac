// SPDX-License-Identifier: Apache-2.0
#include "device/fp8_variant.h"

#include <limits>

#include "tensor/codec.h"

namespace firstlight::device {

void convert_e4m3fn_to_fnuz(std::span<uint8_t> codes, std::span<float> scales) {
  for (uint8_t& code : codes) {
    if ((code & 0x7f) == 0x7f) {
      code = 0x80;
    } else if (code == 0x80) {
      code = 0;
    }
  }
  for (float& scale : scales) scale *= 2.0f;
}

float e4m3fnuz_to_f32(uint8_t code) {
  if (code == 0x80) return std::numeric_limits<float>::quiet_NaN();
  // 0x7f and 0xff are NaN to the other variant, and 240 here: the same exponent, the largest fraction.
  if ((code & 0x7f) == 0x7f) return code == 0x7f ? 240.0f : -240.0f;
  return tensor::f8e4m3_to_f32(code) * 0.5f;
}

}  // namespace firstlight::device
