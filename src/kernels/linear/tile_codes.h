// SPDX-License-Identifier: Apache-2.0
// What the codes and scales of a packed tile mean, in the words of kernels/common/cpu/simd_*.h; compiled once per
// instruction set, included by form_<isa>.cc alone.
#pragma once

namespace firstlight::kernels {
namespace {

using tensor::DType;

constexpr int kParts = static_cast<int>(kTileRows) / kLanes;  // vectors side by side in a tile
constexpr int kTypeBytes = 4 * kLanes;                        // bytes of a part's 4-byte groups

FL_INLINE int32_t word_at(const void* at) {
  int32_t word;
  __builtin_memcpy(&word, at, 4);
  return word;
}

// Asks for what will be wanted of token `t`.
FL_INLINE void prefetch_rows(const TileSet& set, int64_t t) {
  for (int i = 0; i < set.num_ahead; ++i) {
    const RowsAhead& rows = set.ahead[i];
    const std::byte* at = rows.at + t * rows.stride;
    for (int n = 0; n < set.count; ++n) {
      rows.written ? __builtin_prefetch(at + 64 * n, 1) : __builtin_prefetch(at + 64 * n, 0);
    }
  }
}

constexpr bool has_minimum(DType type) {
  return type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ4_K || type == DType::kQ5_K;
}
constexpr bool has_half_scales(DType type) { return type == DType::kQ6_K || type == DType::kNVFP4; }
// A float32 scale per row and block, and for int4g and int8g a zero to subtract.
constexpr bool has_zero(DType type) { return type == DType::kInt4G || type == DType::kInt8G; }
constexpr bool has_float_scale(DType type) { return has_zero(type) || type == DType::kFP8G; }
constexpr bool is_e2m1(DType type) { return type == DType::kMXFP4 || type == DType::kNVFP4; }
// log2 of what is subtracted from a code; -1: nothing.
constexpr int offset_shift(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return kSignedByteDot ? -1 : 7;
    case DType::kQ4_0:
      return 3;
    case DType::kQ5_0:
      return 4;
    case DType::kMXFP4:
    case DType::kNVFP4:
      return 4;  // load_codes looks 2 * value + 16 up
    case DType::kQ6_K:
      return 5;
    default:
      return -1;
  }
}
constexpr int max_code(DType type) {
  switch (type) {
    case DType::kQ8_0:
    case DType::kInt8G:
      return 255;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return 31;
    case DType::kMXFP4:
    case DType::kNVFP4:
      return 28;
    case DType::kQ6_K:
      return 63;
    default:
      return 15;
  }
}

// Where block `index` of a tile lies.
template <DType kType>
FL_INLINE int64_t block_offset(int64_t index) {
  constexpr PackedBlockLayout kLayout = packed_block_layout(kType);
  if constexpr (kLayout.group_blocks == 1) return index * kLayout.block_bytes();
  return index / kLayout.group_blocks * kLayout.group_bytes() + kLayout.header_bytes +
         index % kLayout.group_blocks * kLayout.block_bytes();
}

// The 8 groups of 4 columns of a block, a byte each.
template <DType kType>
FL_INLINE void load_codes(const std::byte* block, int part, Int* codes) {
  constexpr PackedBlockLayout kLayout = packed_block_layout(kType);
  const std::byte* at = block + part * kTypeBytes;
  if constexpr (kLayout.code_bytes == 512) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      codes[g] = load_i(at + 64 * g);
      if constexpr (kSignedByteDot && kType != DType::kFP8G)
        codes[g] = xor_i(codes[g], set_i(static_cast<int32_t>(0x80808080u)));
    }
    return;
  }
  const Int low = set_i(0x0f0f0f0f);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Int pair = load_i(at + 64 * j);
    codes[j] = and_i(pair, low);
    codes[j + 4] = and_i(shift_right(pair, 4), low);
  }
  if constexpr (is_e2m1(kType)) {
    // 2 * (0, .5, 1, 1.5, 2, 3, 4, 6) + 16, then their negatives
    const __m128i values = _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) codes[g] = lookup_bytes(values, codes[g]);
  }
  if constexpr (kLayout.high_bytes == 64) {
    const Int plane = load_i(at + kLayout.code_bytes);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      const Int moved = g <= 4 ? shift_left(plane, 4 - g) : shift_right(plane, g - 4);
      codes[g] = or_i(codes[g], and_i(moved, set_i(0x10101010)));
    }
  }
  if constexpr (kLayout.high_bytes == 128) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      const Int plane = load_i(at + kLayout.code_bytes + 64 * (g / 4));
      const int j = g % 4;
      const Int moved = j <= 2 ? shift_left(plane, 4 - 2 * j) : shift_right(plane, 2 * j - 4);
      codes[g] = or_i(codes[g], and_i(moved, set_i(0x30303030)));
    }
  }
}

// value = scale * (code - offset) + minimum; scale_high is for the last 16 columns where the type has two; `zero` is
// the offset where each block has its own, of codes as load_codes gives them.
struct Scales {
  Float scale;
  Float scale_high;
  Float minimum;
  Float zero;
};

// E4M3 codes (0 .. 255, a lane each) as floats, without a subnormal on the way: the exponent moves up by 120; codes
// with exponent 0 then are 2^-7 (1 + m/8), where m 2^-9 is meant.
FL_INLINE Float e4m3_of(Int code) {
  const Int magnitude = shift_left(and_i(code, set_i(0x7f)), 20);
  const Float moved = from_bits(add_i(magnitude, set_i(120 << 23)));
  const Float least = set_f(0.015625f);  // 2^-6, the smallest normal value
  const Float value = select_f(less_f(moved, least), sub_f(add_f(moved, moved), least), moved);
  const Float checked = select_f(equal_f(value, set_f(480.0f)), set_f(__builtin_nanf("")), value);
  return from_bits(or_i(bits_f(checked), shift_left(and_i(code, set_i(0x80)), 24)));
}

template <DType kType>
FL_INLINE Scales load_scales(const std::byte* tile, int64_t index, int part) {
  constexpr PackedBlockLayout kLayout = packed_block_layout(kType);
  const std::byte* at = tile + block_offset<kType>(index) + kLayout.code_bytes + kLayout.high_bytes;
  const int half = part * kLanes * 2;
  const int byte = part * kLanes;
  Scales scales{zero_f(), zero_f(), zero_f(), zero_f()};
  if constexpr (kType == DType::kMXFP4) {
    const Float infinity = set_f(__builtin_inff());
    const Float power =
        from_bits(max_i(shift_left(load_u8_as_i32(at + byte), 23), set_i(0x00400000)));  // code 0: 2^-127
    scales.scale = mul_f(select_f(equal_f(power, infinity), set_f(__builtin_nanf("")), power), set_f(0.5f));
  } else if constexpr (has_float_scale(kType)) {
    scales.scale = load_f(reinterpret_cast<const float*>(at) + byte);
    if constexpr (has_zero(kType)) {
      scales.zero = float_of(load_u8_as_i32(at + 64 + byte));
      if constexpr (kType == DType::kInt8G && kSignedByteDot) scales.zero = sub_f(scales.zero, set_f(128));
    }
  } else if constexpr (kType == DType::kNVFP4) {  // halved: load_codes gives 2 * value
    const std::byte* header = tile + index / kLayout.group_blocks * kLayout.group_bytes();
    const Float d = load_f(reinterpret_cast<const float*>(header) + byte);
    scales.scale = mul_f(mul_f(d, e4m3_of(load_u8_as_i32(at + byte))), set_f(0.5f));
    scales.scale_high = mul_f(mul_f(d, e4m3_of(load_u8_as_i32(at + 16 + byte))), set_f(0.5f));
  } else if constexpr (kLayout.group_blocks == 1) {
    scales.scale = load_f16(at + half);
    if constexpr (has_minimum(kType)) scales.minimum = load_f16(at + 32 + half);
  } else {
    const std::byte* header = tile + index / kLayout.group_blocks * kLayout.group_bytes();
    const Float d = load_f16(header + half);
    if constexpr (kType == DType::kQ6_K) {
      scales.scale = mul_f(d, float_of(load_i8_as_i32(at + byte)));
      scales.scale_high = mul_f(d, float_of(load_i8_as_i32(at + 16 + byte)));
    } else {
      scales.scale = mul_f(d, float_of(load_u8_as_i32(at + byte)));
      scales.minimum = sub_f(zero_f(), mul_f(load_f16(header + 32 + half), float_of(load_u8_as_i32(at + 16 + byte))));
    }
  }
  return scales;
}

}  // namespace
}  // namespace firstlight::kernels
