// SPDX-License-Identifier: Apache-2.0
// Rows of caches: plain types, or blocks of 32 elements with scales of their own (q8_0, mxfp8, q4_1, q4_1s), encoded
// row by row. A row that is no whole number of blocks is padded to one. The plain, exact form that every faster one
// equals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "tensor/dtype.h"

namespace firstlight::tensor {

// Whether encode_row takes it: f64, f32, f16, bf16, q8_0, mxfp8, q4_1, q4_1s.
bool is_state_type(DType type);

// Bytes of a row of `width` elements, its last block padded.
inline int64_t state_row_bytes(DType type, int64_t width) {
  const DTypeInfo& info = dtype_info(type);
  return (width + info.block_elements - 1) / info.block_elements * info.block_bytes;
}

// The largest exponent (plus 127) of an mxfp8 scale that encode_row makes: 2^8 times it is still a float.
inline constexpr int kMXFP8Scales = 246;

// Rounds a row. Plain types: to nearest even. Per block of 32 (padding repeats the row's last element):
//   q8_0   d = max |x| / 127 as a half; codes x / d to nearest even
//   mxfp8  the least power of two d with max |x| / d <= 448; codes x / d to nearest even
//   q4_1   (q4_1s: per 16 elements) m = min x as a half, d = (max x - m) / 15 as a half; codes (x - m) / d to nearest
// An element is off by half a step at most (d / 2; for mxfp8 2^-4 |x| or 2^-10 d) and by what rounding m and d to
// halves costs; encoding what was decoded changes nothing but for scales below normal halves, and for q4_1(s) last bits
// of elements whose m is 2^17 steps and more. A block (for q4_1s: 16 elements) with an infinity, a NaN or a scale
// beyond its type becomes NaN throughout. `bytes`: state_row_bytes. Errors: kUnsupported for other types.
Status encode_row(DType type, std::span<const float> values, std::span<std::byte> bytes);

// Of a row as encode_row or any block format has it. Errors: kInvalidArgument when `bytes` is too short.
Status decode_row(DType type, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace firstlight::tensor
