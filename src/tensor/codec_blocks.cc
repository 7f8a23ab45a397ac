// SPDX-License-Identifier: Apache-2.0
#include "tensor/codec_blocks.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "tensor/codec.h"

namespace firstlight::tensor {
namespace {

constexpr int kSmall = 32;  // elements of a small block

float half_at(const uint8_t* in) {
  uint16_t bits;
  std::memcpy(&bits, in, 2);
  return f16_to_f32(bits);
}

uint32_t word_at(const uint8_t* in) {
  uint32_t word;
  std::memcpy(&word, in, 4);
  return word;
}

// d | 32 x i8
void decode_q8_0(const uint8_t* in, float* out) {
  const float d = half_at(in);
  for (int j = 0; j < kSmall; ++j) out[j] = d * static_cast<float>(static_cast<int8_t>(in[2 + j]));
}

// d | 16 bytes: element j in the low nibble of byte j, element j + 16 in its high nibble
void decode_q4_0(const uint8_t* in, float* out) {
  const float d = half_at(in);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>((in[2 + j] & 15) - 8);
    out[j + 16] = d * static_cast<float>((in[2 + j] >> 4) - 8);
  }
}

// d | m | 16 bytes of nibbles as above
void decode_q4_1(const uint8_t* in, float* out) {
  const float d = half_at(in);
  const float m = half_at(in + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(in[4 + j] & 15) + m;
    out[j + 16] = d * static_cast<float>(in[4 + j] >> 4) + m;
  }
}

// d | 32 fifth bits, bit j for element j | 16 bytes of nibbles as above
void decode_q5_0(const uint8_t* in, float* out) {
  const float d = half_at(in);
  const uint32_t high = word_at(in + 2);
  for (int j = 0; j < 16; ++j) {
    const int low0 = in[6 + j] & 15;
    const int low1 = in[6 + j] >> 4;
    out[j] = d * static_cast<float>((low0 | static_cast<int>((high >> j) & 1) << 4) - 16);
    out[j + 16] = d * static_cast<float>((low1 | static_cast<int>((high >> (j + 16)) & 1) << 4) - 16);
  }
}

// d | m | 32 fifth bits | 16 bytes of nibbles
void decode_q5_1(const uint8_t* in, float* out) {
  const float d = half_at(in);
  const float m = half_at(in + 2);
  const uint32_t high = word_at(in + 4);
  for (int j = 0; j < 16; ++j) {
    const int low0 = in[8 + j] & 15;
    const int low1 = in[8 + j] >> 4;
    out[j] = d * static_cast<float>(low0 | static_cast<int>((high >> j) & 1) << 4) + m;
    out[j + 16] = d * static_cast<float>(low1 | static_cast<int>((high >> (j + 16)) & 1) << 4) + m;
  }
}

// The eight 6-bit scales and eight 6-bit minima of a Q4_K or Q5_K block in 12 bytes. Scale and minimum i < 4 are the
// low six bits of bytes i and i + 4; those of i >= 4 have their low four bits in byte i + 4 and their high two bits in
// the spare bits of bytes i - 4 and i.
struct ScaleMin {
  float scale;
  float min;
};

ScaleMin scale_min_at(const uint8_t* in, int i) {
  if (i < 4) return {static_cast<float>(in[i] & 63), static_cast<float>(in[i + 4] & 63)};
  const int scale = (in[i + 4] & 15) | (in[i - 4] >> 6) << 4;
  const int min = (in[i + 4] >> 4) | (in[i] >> 6) << 4;
  return {static_cast<float>(scale), static_cast<float>(min)};
}

// d | dmin | 12 bytes of scales and minima | 128 bytes: each 32 of them hold 32 elements in their low and the next 32
// in their high nibbles
void decode_q4_k(const uint8_t* in, float* out) {
  const float d = half_at(in);
  const float dmin = half_at(in + 2);
  const uint8_t* nibbles = in + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin part = scale_min_at(in + 4, group);
    const float scale = d * part.scale;
    const float min = dmin * part.min;
    const uint8_t* bytes = nibbles + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int j = 0; j < 32; ++j) out[32 * group + j] = scale * static_cast<float>((bytes[j] >> shift) & 15) - min;
  }
}

// d | dmin | 12 bytes of scales and minima | 32 bytes of fifth bits: bit g of byte j for element j of group g | 128
// bytes as in Q4_K
void decode_q5_k(const uint8_t* in, float* out) {
  const float d = half_at(in);
  const float dmin = half_at(in + 2);
  const uint8_t* high = in + 16;
  const uint8_t* nibbles = in + 48;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin part = scale_min_at(in + 4, group);
    const float scale = d * part.scale;
    const float min = dmin * part.min;
    const uint8_t* bytes = nibbles + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      const int q = ((bytes[j] >> shift) & 15) | ((high[j] >> group) & 1) << 4;
      out[32 * group + j] = scale * static_cast<float>(q) - min;
    }
  }
}

// 128 bytes of low nibbles | 64 bytes of high bit pairs | 16 x i8 scales, one per 16 elements | d
// Each half of 128 elements: element 32 g + j has its low nibble in byte 32 (g % 2) + j of the half's 64 (low nibble
// for g < 2, high for g >= 2), its high bits at 2 g of byte j of the half's 32.
void decode_q6_k(const uint8_t* in, float* out) {
  const float d = half_at(in + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = in + 64 * half;
    const uint8_t* high = in + 128 + 32 * half;
    const uint8_t* scales = in + 192 + 8 * half;
    for (int group = 0; group < 4; ++group) {
      for (int part = 0; part < 2; ++part) {
        const float scale = d * static_cast<float>(static_cast<int8_t>(scales[2 * group + part]));
        float* to = out + 128 * half + 32 * group + 16 * part;
        for (int j = 0; j < 16; ++j) {
          const int nibble = (low[32 * (group % 2) + 16 * part + j] >> (group / 2 * 4)) & 15;
          const int q = (nibble | ((high[16 * part + j] >> (2 * group)) & 3) << 4) - 32;
          to[j] = scale * static_cast<float>(q);
        }
      }
    }
  }
}

// An E8M0 scale | 16 bytes of E2M1, nibbles as in Q4_0
void decode_mxfp4(const uint8_t* in, float* out) {
  const float scale = f8e8m0_to_f32(in[0]);
  std::array<float, 16> values;
  for (uint8_t code = 0; code < 16; ++code) values[code] = scale * f4e2m1_to_f32(code);
  for (int j = 0; j < 16; ++j) {
    out[j] = values[in[1 + j] & 15];
    out[j + 16] = values[in[1 + j] >> 4];
  }
}

float float_at(const uint8_t* in) {
  float value;
  std::memcpy(&value, in, 4);
  return value;
}

// d | z | 16 bytes of nibbles
void decode_int4g(const uint8_t* in, float* out) {
  const float d = float_at(in);
  const int zero = in[4];
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>((in[5 + j] & 15) - zero);
    out[j + 16] = d * static_cast<float>((in[5 + j] >> 4) - zero);
  }
}

// d | z | 32 codes
void decode_int8g(const uint8_t* in, float* out) {
  const float d = float_at(in);
  const int zero = in[4];
  for (int j = 0; j < kSmall; ++j) out[j] = d * static_cast<float>(in[5 + j] - zero);
}

// d | 32 codes
void decode_fp8g(const uint8_t* in, float* out) {
  const float d = float_at(in);
  for (int j = 0; j < kSmall; ++j) out[j] = d * f8e4m3_to_f32(in[4 + j]);
}

// d | 4 scales | 2 x 16 bytes of nibbles
void decode_nvfp4(const uint8_t* in, float* out) {
  const float d = float_at(in);
  for (int quarter = 0; quarter < 4; ++quarter) {
    const float scale = d * f8e4m3_to_f32(in[4 + quarter]);
    const uint8_t* bytes = in + 8 + quarter / 2 * 16;
    const int shift = quarter % 2 * 4;
    for (int j = 0; j < 16; ++j) {
      out[16 * quarter + j] = scale * f4e2m1_to_f32(static_cast<uint8_t>(bytes[j] >> shift));
    }
  }
}

// scale | 32 x E4M3
void decode_mxfp8(const uint8_t* in, float* out) {
  const float d = f8e8m0_to_f32(in[0]);
  for (int j = 0; j < kSmall; ++j) out[j] = d * f8e4m3_to_f32(in[1 + j]);
}

// d, m of elements 0 to 15 | d, m of 16 to 31 | 16 bytes of nibbles as in Q4_1
void decode_q4_1s(const uint8_t* in, float* out) {
  for (int half = 0; half < 2; ++half) {
    const float d = half_at(in + 4 * half);
    const float m = half_at(in + 4 * half + 2);
    for (int j = 0; j < 16; ++j) out[16 * half + j] = d * static_cast<float>((in[8 + j] >> (4 * half)) & 15) + m;
  }
}

template <void (*kDecode)(const uint8_t*, float*)>
void decode_all(const uint8_t* in, size_t num_blocks, float* out, size_t block_bytes, size_t block_elements) {
  for (size_t i = 0; i < num_blocks; ++i) kDecode(in + i * block_bytes, out + i * block_elements);
}

using BlocksDecoder = void (*)(const uint8_t*, size_t, float*, size_t, size_t);

BlocksDecoder find_decoder(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return decode_all<decode_q8_0>;
    case DType::kQ4_0:
      return decode_all<decode_q4_0>;
    case DType::kQ4_1:
      return decode_all<decode_q4_1>;
    case DType::kQ5_0:
      return decode_all<decode_q5_0>;
    case DType::kQ5_1:
      return decode_all<decode_q5_1>;
    case DType::kQ4_K:
      return decode_all<decode_q4_k>;
    case DType::kQ5_K:
      return decode_all<decode_q5_k>;
    case DType::kQ6_K:
      return decode_all<decode_q6_k>;
    case DType::kMXFP4:
      return decode_all<decode_mxfp4>;
    case DType::kInt4G:
      return decode_all<decode_int4g>;
    case DType::kInt8G:
      return decode_all<decode_int8g>;
    case DType::kFP8G:
      return decode_all<decode_fp8g>;
    case DType::kNVFP4:
      return decode_all<decode_nvfp4>;
    case DType::kMXFP8:
      return decode_all<decode_mxfp8>;
    case DType::kQ4_1S:
      return decode_all<decode_q4_1s>;
    case DType::kBool:
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
    case DType::kF4E2M1:
      break;
  }
  return nullptr;
}

}  // namespace

void decode_blocks(DType type, const std::byte* in, size_t num_blocks, float* out) {
  const BlocksDecoder decode = find_decoder(type);
  FL_CHECK(decode != nullptr);
  const DTypeInfo& info = dtype_info(type);
  decode(reinterpret_cast<const uint8_t*>(in), num_blocks, out, static_cast<size_t>(info.block_bytes),
         static_cast<size_t>(info.block_elements));
}

}  // namespace firstlight::tensor
