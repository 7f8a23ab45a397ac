// SPDX-License-Identifier: Apache-2.0
#include "tensor/codec.h"

#include <immintrin.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tensor/codec_blocks.h"

namespace firstlight::tensor {
namespace {

// 1 / 2^n for small n, so that tables can be computed at compile time.
constexpr float exp2_small(int exponent) {
  float value = 1.0f;
  for (; exponent > 0; --exponent) value *= 2.0f;
  for (; exponent < 0; ++exponent) value *= 0.5f;
  return value;
}

// A sign, `exponent_bits` and `mantissa_bits` in a byte, subnormals included; special codes are the caller's.
constexpr float decode_small_float(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const bool is_negative = ((bits >> (exponent_bits + mantissa_bits)) & 1) != 0;
  const float fraction = static_cast<float>(mantissa) * exp2_small(-mantissa_bits);
  const float magnitude =
      exponent == 0 ? fraction * exp2_small(1 - bias) : (1.0f + fraction) * exp2_small(exponent - bias);
  return is_negative ? -magnitude : magnitude;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr std::array<float, 256> make_f8e4m3() {
  std::array<float, 256> table{};
  for (unsigned i = 0; i < 256; ++i) table[i] = (i & 0x7f) == 0x7f ? kNan : decode_small_float(i, 4, 3);
  return table;
}

constexpr std::array<float, 256> make_f8e5m2() {
  std::array<float, 256> table{};
  for (unsigned i = 0; i < 256; ++i) {
    const bool is_special = (i & 0x7c) == 0x7c;
    const float special = (i & 3) != 0 ? kNan : (i & 0x80) != 0 ? -kInfinity : kInfinity;
    table[i] = is_special ? special : decode_small_float(i, 5, 2);
  }
  return table;
}

constexpr std::array<float, 256> make_f8e8m0() {
  std::array<float, 256> table{};
  table[0] = std::bit_cast<float>(uint32_t{0x00400000});  // 2^-127, a subnormal
  for (uint32_t i = 1; i < 255; ++i) table[i] = std::bit_cast<float>(i << 23);
  table[255] = kNan;
  return table;
}

constexpr std::array<float, 16> make_f4e2m1() {
  std::array<float, 16> table{};
  for (unsigned i = 0; i < 16; ++i) table[i] = decode_small_float(i, 2, 1);
  return table;
}

constexpr std::array<float, 256> kF8E4M3 = make_f8e4m3();
constexpr std::array<float, 256> kF8E5M2 = make_f8e5m2();
constexpr std::array<float, 256> kF8E8M0 = make_f8e8m0();
constexpr std::array<float, 16> kF4E2M1 = make_f4e2m1();

template <typename T>
void decode_numbers(const std::byte* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, in + i * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

void decode_table(const std::array<float, 256>& table, const std::byte* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = table[std::to_integer<uint8_t>(in[i])];
}

void decode_bool(const std::byte* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = in[i] == std::byte{0} ? 0.0f : 1.0f;
}

void decode_f4e2m1(const std::byte* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += 2) {
    const auto byte = std::to_integer<uint8_t>(in[i / 2]);
    out[i] = kF4E2M1[byte & 15];
    out[i + 1] = kF4E2M1[byte >> 4];
  }
}

void decode_f16(const std::byte* in, std::span<float> out) {
  size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i));
    _mm256_storeu_ps(out.data() + i, _mm256_cvtph_ps(halves));
  }
  for (; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, in + 2 * i, 2);
    out[i] = f16_to_f32(bits);
  }
}

void decode_bf16(const std::byte* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, in + 2 * i, 2);
    out[i] = bf16_to_f32(bits);
  }
}

void encode_f16(std::span<const float> values, std::byte* out) {
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(values.data() + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i), halves);
  }
  for (; i < values.size(); ++i) {
    const uint16_t bits = f32_to_f16(values[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

Status check_sizes(DType type, size_t elements, size_t bytes) {
  const auto wanted = row_bytes(type, static_cast<int64_t>(elements));
  if (!wanted) {
    return invalid_argument(std::to_string(elements) + " elements of " + std::string(dtype_name(type)) +
                            ": a multiple of " + std::to_string(dtype_info(type).block_elements) + " wanted");
  }
  if (bytes < static_cast<size_t>(*wanted)) {
    return invalid_argument(std::to_string(elements) + " elements of " + std::string(dtype_name(type)) + " take " +
                            std::to_string(*wanted) + " bytes, found " + std::to_string(bytes));
  }
  return ok_status();
}

}  // namespace

float f16_to_f32(uint16_t bits) { return _cvtsh_ss(bits); }

uint16_t f32_to_f16(float value) {
  return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // keep it a (quiet) NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f8e4m3_to_f32(uint8_t bits) { return kF8E4M3[bits]; }
float f8e5m2_to_f32(uint8_t bits) { return kF8E5M2[bits]; }
float f8e8m0_to_f32(uint8_t bits) { return kF8E8M0[bits]; }
float f4e2m1_to_f32(uint8_t nibble) { return kF4E2M1[nibble & 15]; }

Status decode_to_f32(DType type, std::span<const std::byte> bytes, std::span<float> out) {
  FL_TRY(check_sizes(type, out.size(), bytes.size()));
  const std::byte* in = bytes.data();
  switch (type) {
    case DType::kBool:
      decode_bool(in, out);
      break;
    case DType::kI8:
      decode_numbers<int8_t>(in, out);
      break;
    case DType::kU8:
      decode_numbers<uint8_t>(in, out);
      break;
    case DType::kI16:
      decode_numbers<int16_t>(in, out);
      break;
    case DType::kU16:
      decode_numbers<uint16_t>(in, out);
      break;
    case DType::kI32:
      decode_numbers<int32_t>(in, out);
      break;
    case DType::kU32:
      decode_numbers<uint32_t>(in, out);
      break;
    case DType::kI64:
      decode_numbers<int64_t>(in, out);
      break;
    case DType::kU64:
      decode_numbers<uint64_t>(in, out);
      break;
    case DType::kF64:
      decode_numbers<double>(in, out);
      break;
    case DType::kF32:
      if (!out.empty()) std::memcpy(out.data(), in, out.size_bytes());
      break;
    case DType::kF16:
      decode_f16(in, out);
      break;
    case DType::kBF16:
      decode_bf16(in, out);
      break;
    case DType::kF8E4M3:
      decode_table(kF8E4M3, in, out);
      break;
    case DType::kF8E5M2:
      decode_table(kF8E5M2, in, out);
      break;
    case DType::kF8E8M0:
      decode_table(kF8E8M0, in, out);
      break;
    case DType::kF4E2M1:
      decode_f4e2m1(in, out);
      break;
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kMXFP4:
    case DType::kInt4G:
    case DType::kInt8G:
    case DType::kFP8G:
    case DType::kNVFP4:
    case DType::kMXFP8:
    case DType::kQ4_1S:
      decode_blocks(type, in, out.size() / static_cast<size_t>(dtype_info(type).block_elements), out.data());
      break;
  }
  return ok_status();
}

Status encode_from_f32(DType type, std::span<const float> values, std::span<std::byte> out) {
  if (type != DType::kF64 && type != DType::kF32 && type != DType::kF16 && type != DType::kBF16) {
    return unsupported("encoding float32 as " + std::string(dtype_name(type)) + ": f64, f32, f16 or bf16 wanted");
  }
  FL_TRY(check_sizes(type, values.size(), out.size()));
  if (values.empty()) return ok_status();
  if (type == DType::kF32) {
    std::memcpy(out.data(), values.data(), values.size_bytes());
  } else if (type == DType::kF16) {
    encode_f16(values, out.data());
  } else if (type == DType::kF64) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      std::memcpy(out.data() + 8 * i, &value, 8);
    }
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = f32_to_bf16(values[i]);
      std::memcpy(out.data() + 2 * i, &bits, 2);
    }
  }
  return ok_status();
}

}  // namespace firstlight::tensor
