// SPDX-License-Identifier: Apache-2.0
// FP8 E4M3 as files hold it (FN: largest 448, a negative zero, NaN is 0x7f and 0xff) to the variant of devices that
// have no negative zero (FNUZ: the exponent's bias is one more, so that a code means half as much, and 0x80 is the only
// NaN). A tensor is converted as a whole, codes and scales, and marked so: the two must never meet in one product.
#pragma once

#include <cstdint>
#include <span>

namespace firstlight::device {

// In place: negative zero becomes zero, NaN becomes 0x80, other codes stay; scales are doubled. The products of code
// and scale are what they were, to the last bit, unless a scale overflows.
void convert_e4m3fn_to_fnuz(std::span<uint8_t> codes, std::span<float> scales);

// The value of a code of the variant.
float e4m3fnuz_to_f32(uint8_t code);

}  // namespace firstlight::device
