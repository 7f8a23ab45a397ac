// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/packing.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "tensor/codec.h"

namespace firstlight::kernels {
namespace {

using tensor::DType;

constexpr int kGroups = 8;  // of 4 columns in a block
constexpr uint32_t kLowNibbles = 0x0f0f0f0f;

uint32_t word_at(const uint8_t* in) {
  uint32_t word;
  std::memcpy(&word, in, 4);
  return word;
}

// A block of 32 columns of one row: codes as bytes, group g in word g, and what the block's scales are.
struct Codes {
  uint32_t groups[kGroups];
  uint8_t scales[5];  // as they go into the tile: d, then m (two bytes each); the bytes of a super-block's part; a
                      // float32 d, then a zero
};

void read_nibbles(const uint8_t* in, Codes& codes) {
  for (int j = 0; j < 4; ++j) {
    const uint32_t word = word_at(in + 4 * j);
    codes.groups[j] = word & kLowNibbles;
    codes.groups[j + 4] = (word >> 4) & kLowNibbles;
  }
}

// Bit i of a group's four goes to bit 4 of byte i.
void add_fifth_bits(uint32_t bits, Codes& codes) {
  for (int g = 0; g < kGroups; ++g) {
    const uint32_t four = (bits >> (4 * g)) & 15;
    codes.groups[g] |= ((four * 0x00204081u) & 0x01010101u) << 4;
  }
}

// Element 4g + i of part `b`: bit b of byte 4g + i.
void add_fifth_bits_of_part(const uint8_t* in, int part, Codes& codes) {
  for (int g = 0; g < kGroups; ++g) codes.groups[g] |= ((word_at(in + 4 * g) >> part) & 0x01010101u) << 4;
}

// Scale and minimum `i` of the 12 bytes of a Q4_K or Q5_K block (tensor/codec_blocks.cc describes them).
void read_scale_min(const uint8_t* in, int i, Codes& codes) {
  if (i < 4) {
    codes.scales[0] = in[i] & 63;
    codes.scales[1] = in[i + 4] & 63;
  } else {
    codes.scales[0] = static_cast<uint8_t>((in[i + 4] & 15) | (in[i - 4] >> 6) << 4);
    codes.scales[1] = static_cast<uint8_t>((in[i + 4] >> 4) | (in[i] >> 6) << 4);
  }
}

void read_half_bytes(const uint8_t* in, int part, Codes& codes) {
  const uint8_t* bytes = in + part / 2 * 32;
  for (int g = 0; g < kGroups; ++g) codes.groups[g] = (word_at(bytes + 4 * g) >> (part % 2 * 4)) & kLowNibbles;
}

void read_q6_k(const uint8_t* in, int part, Codes& codes) {
  const int half = part / 4;
  const int quarter = part % 4;
  const uint8_t* low = in + 64 * half + 32 * (quarter % 2);
  const uint8_t* high = in + 128 + 32 * half;
  for (int g = 0; g < kGroups; ++g) {
    const uint32_t nibbles = (word_at(low + 4 * g) >> (quarter / 2 * 4)) & kLowNibbles;
    const uint32_t pairs = (word_at(high + 4 * g) >> (2 * quarter)) & 0x03030303u;
    codes.groups[g] = nibbles | pairs << 4;
  }
  std::memcpy(codes.scales, in + 192 + 2 * part, 2);
}

// Reads block `part` of the group at `in` (part is 0 unless the format has super-blocks).
void read_block(DType type, const uint8_t* in, int part, Codes& codes) {
  switch (type) {
    case DType::kQ8_0:
      std::memcpy(codes.scales, in, 2);
      for (int g = 0; g < kGroups; ++g) codes.groups[g] = word_at(in + 2 + 4 * g) ^ 0x80808080u;
      return;
    case DType::kQ4_0:
      std::memcpy(codes.scales, in, 2);
      return read_nibbles(in + 2, codes);
    case DType::kQ4_1:
      std::memcpy(codes.scales, in, 4);
      return read_nibbles(in + 4, codes);
    case DType::kQ5_0:
      std::memcpy(codes.scales, in, 2);
      read_nibbles(in + 6, codes);
      return add_fifth_bits(word_at(in + 2), codes);
    case DType::kQ5_1:
      std::memcpy(codes.scales, in, 4);
      read_nibbles(in + 8, codes);
      return add_fifth_bits(word_at(in + 4), codes);
    case DType::kMXFP4:
      codes.scales[0] = in[0];
      return read_nibbles(in + 1, codes);
    case DType::kQ4_K:
      read_scale_min(in + 4, part, codes);
      return read_half_bytes(in + 16, part, codes);
    case DType::kQ5_K:
      read_scale_min(in + 4, part, codes);
      read_half_bytes(in + 48, part, codes);
      return add_fifth_bits_of_part(in + 16, part, codes);
    case DType::kQ6_K:
      return read_q6_k(in, part, codes);
    case DType::kInt4G:
      std::memcpy(codes.scales, in, 5);
      return read_nibbles(in + 5, codes);
    case DType::kInt8G:
      std::memcpy(codes.scales, in, 5);
      for (int g = 0; g < kGroups; ++g) codes.groups[g] = word_at(in + 5 + 4 * g);
      return;
    case DType::kFP8G:
      std::memcpy(codes.scales, in, 4);
      for (int g = 0; g < kGroups; ++g) codes.groups[g] = word_at(in + 4 + 4 * g);
      return;
    case DType::kNVFP4:
      std::memcpy(codes.scales, in + 4 + 2 * part, 2);
      return read_nibbles(in + 8 + 16 * part, codes);
    default:
      FL_CHECK(false);
  }
}

void put_word(std::byte* at, int64_t vector, int64_t row, uint32_t word) {
  std::memcpy(at + vector * 64 + row * 4, &word, 4);
}

void write_codes(const PackedBlockLayout& layout, const Codes& codes, int64_t row, std::byte* block) {
  if (layout.code_bytes == 512) {
    for (int g = 0; g < kGroups; ++g) put_word(block, g, row, codes.groups[g]);
    return;
  }
  for (int j = 0; j < 4; ++j) {
    put_word(block, j, row, (codes.groups[j] & kLowNibbles) | (codes.groups[j + 4] & kLowNibbles) << 4);
  }
  std::byte* high = block + layout.code_bytes;
  if (layout.high_bytes == 64) {
    uint32_t plane = 0;
    for (int g = 0; g < kGroups; ++g) plane |= ((codes.groups[g] >> 4) & 0x01010101u) << g;
    put_word(high, 0, row, plane);
  } else if (layout.high_bytes == 128) {
    for (int p = 0; p < 2; ++p) {
      uint32_t plane = 0;
      for (int j = 0; j < 4; ++j) plane |= ((codes.groups[4 * p + j] >> 4) & 0x03030303u) << (2 * j);
      put_word(high, p, row, plane);
    }
  }
}

bool has_float_scale(DType type) { return type == DType::kInt4G || type == DType::kInt8G || type == DType::kFP8G; }

// Scales lie kind after kind, each of 16 rows: halves of two bytes, parts of super-blocks and powers of one; float32
// ones of four, then zeros of one.
void write_scales(DType type, const PackedBlockLayout& layout, const Codes& codes, int64_t row, std::byte* scales) {
  if (has_float_scale(type)) {
    std::memcpy(scales + row * 4, codes.scales, 4);
    if (type != DType::kFP8G) scales[kTileRows * 4 + row] = static_cast<std::byte>(codes.scales[4]);
    return;
  }
  const bool halves = layout.group_blocks == 1 && type != DType::kMXFP4;
  const int64_t width = halves ? 2 : 1;
  const int64_t kinds = layout.scale_bytes / (kTileRows * width);
  for (int64_t kind = 0; kind < kinds; ++kind) {
    std::memcpy(scales + (kind * kTileRows + row) * width, codes.scales + kind * width, static_cast<size_t>(width));
  }
}

void write_header(DType type, const uint8_t* in, int64_t row, std::byte* header) {
  if (type == DType::kQ6_K) {
    std::memcpy(header + row * 2, in + 208, 2);
  } else if (type == DType::kNVFP4) {
    std::memcpy(header + row * 4, in, 4);
  } else {
    std::memcpy(header + row * 2, in, 2);
    std::memcpy(header + 32 + row * 2, in + 2, 2);
  }
}

void pack_blocks(DType type, std::span<const std::byte* const> rows, int64_t columns, std::byte* tile) {
  const PackedBlockLayout layout = packed_block_layout(type);
  const int64_t groups = columns / (kBlockColumns * layout.group_blocks);
  const int64_t stored_bytes = tensor::dtype_info(type).block_bytes;
  for (int64_t group = 0; group < groups; ++group) {
    std::byte* at = tile + group * layout.group_bytes();
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto* in = reinterpret_cast<const uint8_t*>(rows[row]) + group * stored_bytes;
      const auto lane = static_cast<int64_t>(row);
      if (layout.header_bytes > 0) write_header(type, in, lane, at);
      for (int64_t part = 0; part < layout.group_blocks; ++part) {
        std::byte* block = at + layout.header_bytes + part * layout.block_bytes();
        Codes codes;
        read_block(type, in, static_cast<int>(part), codes);
        write_codes(layout, codes, lane, block);
        write_scales(type, layout, codes, lane, block + layout.code_bytes + layout.high_bytes);
      }
    }
  }
}

// Plain elements of `Bits`, `Per` columns of a row side by side.
template <typename Bits, int64_t Per, typename Convert>
void pack_plain(std::span<const std::byte* const> rows, int64_t columns, std::byte* tile, Convert convert) {
  using Out = decltype(convert(Bits{}));
  auto* out = reinterpret_cast<Out*>(tile);
  constexpr int64_t kStripe = 64;  // columns: the 16 rows' lines stay in the first cache while their tile lines fill
  for (int64_t start = 0; start < columns; start += kStripe) {
    const int64_t stop = start + kStripe < columns ? start + kStripe : columns;
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto* in = reinterpret_cast<const Bits*>(rows[row]);
      for (int64_t k = start; k < stop; ++k) {
        Bits bits;
        std::memcpy(&bits, in + k, sizeof bits);
        out[(k / Per * kTileRows + static_cast<int64_t>(row)) * Per + k % Per] = convert(bits);
      }
    }
  }
}

bool is_block_format(DType type) { return packed_block_layout(type).code_bytes > 0; }

// What each 8-bit float is in bfloat16, exactly.
using Bf16Table = std::array<uint16_t, 256>;
const Bf16Table& bf16_table(DType type) {
  const auto fill = [](float (*decode)(uint8_t)) {
    Bf16Table table;
    for (size_t code = 0; code < table.size(); ++code) {
      table[code] = tensor::f32_to_bf16(decode(static_cast<uint8_t>(code)));
    }
    return table;
  };
  static const Bf16Table e4m3 = fill(tensor::f8e4m3_to_f32);
  static const Bf16Table e5m2 = fill(tensor::f8e5m2_to_f32);
  return type == DType::kF8E4M3 ? e4m3 : e5m2;
}

}  // namespace

void pack_tile(DType type, std::span<const std::byte* const> rows, int64_t columns, std::byte* tile) {
  FL_CHECK(rows.size() <= static_cast<size_t>(kTileRows));
  if (!is_block_format(type) || rows.size() < static_cast<size_t>(kTileRows)) {
    std::memset(tile, 0, static_cast<size_t>(packed_tile_bytes(type, columns)));  // rows and columns that are not there
  }
  switch (type) {
    case DType::kF32:
      return pack_plain<uint32_t, 1>(rows, columns, tile, [](uint32_t bits) { return bits; });
    case DType::kF16:
      return pack_plain<uint16_t, 1>(rows, columns, tile, [](uint16_t bits) { return bits; });
    case DType::kBF16:
      return pack_plain<uint16_t, 2>(rows, columns, tile, [](uint16_t bits) { return bits; });
    case DType::kF8E4M3:
    case DType::kF8E5M2: {
      const Bf16Table& table = bf16_table(type);
      return pack_plain<uint8_t, 2>(rows, columns, tile, [&table](uint8_t bits) { return table[bits]; });
    }
    default:
      return pack_blocks(type, rows, columns, tile);
  }
}

}  // namespace firstlight::kernels
