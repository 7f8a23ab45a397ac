// SPDX-License-Identifier: Apache-2.0
#include "tensor/state_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor/codec.h"

namespace firstlight::tensor {
namespace {

constexpr size_t kBlock = 32;
constexpr uint16_t kHalfNaN = 0x7e00;

using Block = std::span<const float, kBlock>;

void put_half(std::byte* to, uint16_t half) { std::memcpy(to, &half, 2); }
void put_byte(std::byte* to, int code) { *to = static_cast<std::byte>(code); }

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

float largest(std::span<const float> values) {
  float most = 0;
  for (const float v : values) most = std::max(most, std::fabs(v));
  return most;
}

int code_of(float value, float step, int least, int most) {
  if (step == 0) return std::max(least, 0);
  return static_cast<int>(
      std::clamp(std::nearbyint(value / step), static_cast<float>(least), static_cast<float>(most)));
}

void encode_q8_0(Block x, std::byte* out) {
  const uint16_t half = f32_to_f16(largest(x) / 127.0f);
  const float d = f16_to_f32(half);
  const bool good = all_finite(x) && std::isfinite(d);
  put_half(out, good ? half : kHalfNaN);
  for (size_t j = 0; j < kBlock; ++j) put_byte(out + 2 + j, good ? code_of(x[j], d, -127, 127) : 0);
}

// To nearest even; |value| <= 448.
int e4m3_of(float value) {
  const int sign = std::signbit(value) ? 0x80 : 0;
  const float size = std::fabs(value);
  if (size < 0x1p-6f) return sign | static_cast<int>(std::nearbyint(size * 0x1p9f));
  const auto bits = std::bit_cast<uint32_t>(size);
  const uint32_t rounded = (bits + 0x7ffff + ((bits >> 20) & 1)) >> 20;
  return sign | (static_cast<int>(rounded) - (120 << 3));
}

void encode_mxfp8(Block x, std::byte* out) {
  // max = f * 2^e with f in [1, 2): 448 = 1.75 * 2^8.
  const auto bits = std::bit_cast<uint32_t>(largest(x));
  const auto exponent = static_cast<int>(bits >> 23) - 8 + ((bits & 0x7fffff) > 0x600000 ? 1 : 0);
  if (!all_finite(x) || exponent > kMXFP8Scales) {
    put_byte(out, 0xff);
    std::fill_n(out + 1, kBlock, std::byte{0});
    return;
  }
  const int scale = std::max(exponent, 1);  // what lies below is rounded to zero or to few bits
  put_byte(out, scale);
  const float inverse = std::bit_cast<float>(static_cast<uint32_t>(254 - scale) << 23);
  for (size_t j = 0; j < kBlock; ++j) put_byte(out + 1 + j, e4m3_of(x[j] * inverse));
}

// Codes of elements that share d and m into the nibbles that start at bit `shift` of `codes`.
void encode_nibbles(std::span<const float> x, std::byte* scales, std::byte* codes, int shift) {
  const uint16_t low = f32_to_f16(*std::min_element(x.begin(), x.end()) + 0.0f);  // no negative zero
  const float m = f16_to_f32(low);
  const float spread = *std::max_element(x.begin(), x.end()) - m;
  const uint16_t step = f32_to_f16((spread > 0 ? spread : 0.0f) / 15.0f);
  const float d = f16_to_f32(step);
  const bool good = all_finite(x) && std::isfinite(d) && std::isfinite(m);
  put_half(scales, good ? step : kHalfNaN);
  put_half(scales + 2, good ? low : uint16_t{0});
  for (size_t j = 0; j < x.size(); ++j) {
    const int code = good ? code_of(x[j] - m, d, 0, 15) : 0;
    codes[j % 16] |= static_cast<std::byte>(code << (j < 16 ? shift : 4));
  }
}

void encode_q4_1(Block x, std::byte* out) {
  std::fill_n(out + 4, 16, std::byte{0});
  encode_nibbles(x, out, out + 4, 0);
}

void encode_q4_1s(Block x, std::byte* out) {
  std::fill_n(out + 8, 16, std::byte{0});
  encode_nibbles(x.first(16), out, out + 8, 0);
  encode_nibbles(x.last(16), out + 4, out + 8, 4);
}

}  // namespace

bool is_state_type(DType type) {
  return type == DType::kF64 || type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 ||
         type == DType::kQ8_0 || type == DType::kMXFP8 || type == DType::kQ4_1 || type == DType::kQ4_1S;
}

Status encode_row(DType type, std::span<const float> values, std::span<std::byte> bytes) {
  const DTypeInfo& info = dtype_info(type);
  if (!info.is_quantised) return encode_from_f32(type, values, bytes);
  if (!is_state_type(type)) return unsupported("rows of a state as " + std::string(info.name));
  const auto wanted = static_cast<size_t>(state_row_bytes(type, static_cast<int64_t>(values.size())));
  if (bytes.size() < wanted) {
    return invalid_argument(std::to_string(values.size()) + " elements of " + std::string(info.name) + " take " +
                            std::to_string(wanted) + " bytes, found " + std::to_string(bytes.size()));
  }
  std::byte* to = bytes.data();
  for (size_t first = 0; first < values.size(); first += kBlock, to += info.block_bytes) {
    std::array<float, kBlock> block;
    const size_t count = std::min(kBlock, values.size() - first);
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(first), count, block.begin());
    std::fill(block.begin() + static_cast<ptrdiff_t>(count), block.end(), values.back());
    if (type == DType::kQ8_0) encode_q8_0(block, to);
    if (type == DType::kMXFP8) encode_mxfp8(block, to);
    if (type == DType::kQ4_1) encode_q4_1(block, to);
    if (type == DType::kQ4_1S) encode_q4_1s(block, to);
  }
  return ok_status();
}

Status decode_row(DType type, std::span<const std::byte> bytes, std::span<float> values) {
  const DTypeInfo& info = dtype_info(type);
  const auto elements = static_cast<size_t>(info.block_elements);
  const size_t whole = values.size() / elements * elements;
  if (whole == values.size()) return decode_to_f32(type, bytes, values);
  FL_TRY(decode_to_f32(type, bytes, values.first(whole)));
  std::array<float, 256> block;  // the longest there is
  const auto at = std::min(bytes.size(), whole / elements * static_cast<size_t>(info.block_bytes));
  FL_TRY(decode_to_f32(type, bytes.subspan(at), std::span(block).first(elements)));
  std::copy_n(block.begin(), values.size() - whole, values.begin() + static_cast<ptrdiff_t>(whole));
  return ok_status();
}

}  // namespace firstlight::tensor
