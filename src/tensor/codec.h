// SPDX-License-Identifier: Apache-2.0
// Between stored bytes and float32, element by element: the plain, exact form that every faster one is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "tensor/dtype.h"

namespace firstlight::tensor {

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  // to nearest, ties to even; too large becomes infinity
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);  // to nearest, ties to even; NaN stays NaN
float f8e4m3_to_f32(uint8_t bits);
float f8e5m2_to_f32(uint8_t bits);
float f8e8m0_to_f32(uint8_t bits);
float f4e2m1_to_f32(uint8_t nibble);

// Decodes whole blocks: `out.size()` elements from the first bytes of `bytes`. Integers convert by value. Errors:
// kInvalidArgument when out.size() is not a whole number of blocks or `bytes` is too short.
Status decode_to_f32(DType type, std::span<const std::byte> bytes, std::span<float> out);

// Encodes into a plain float type (f64, f32, f16, bf16), rounding to nearest even. Block formats are kUnsupported.
Status encode_from_f32(DType type, std::span<const float> values, std::span<std::byte> out);

}  // namespace firstlight::tensor
