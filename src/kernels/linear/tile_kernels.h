// SPDX-License-Identifier: Apache-2.0
// The tile kernels, written in the words of kernels/common/cpu/simd_*.h and compiled once per instruction set; included
// by form_<isa>.cc alone. Three families, each for every stored type: int8 (integer dot products of the codes), f32 and
// bf16 (codes decoded chunk by chunk, then register-tiled products).
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

// ---- what the codes of a type mean ----------------------------------------------------------------------------------

constexpr bool has_minimum(DType type) {
  return type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ4_K || type == DType::kQ5_K;
}
constexpr bool has_half_scales(DType type) { return type == DType::kQ6_K; }
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
      return 255;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return 31;
    case DType::kMXFP4:
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
      if constexpr (kSignedByteDot) codes[g] = xor_i(codes[g], set_i(static_cast<int32_t>(0x80808080u)));
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
  if constexpr (kType == DType::kMXFP4) {
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

// value = scale * (code - offset) + minimum; scale_high is for the last 16 columns where the type has two.
struct Scales {
  Float scale;
  Float scale_high;
  Float minimum;
};

template <DType kType>
FL_INLINE Scales load_scales(const std::byte* tile, int64_t index, int part) {
  constexpr PackedBlockLayout kLayout = packed_block_layout(kType);
  const std::byte* at = tile + block_offset<kType>(index) + kLayout.code_bytes + kLayout.high_bytes;
  const int half = part * kLanes * 2;
  const int byte = part * kLanes;
  Scales scales{zero_f(), zero_f(), zero_f()};
  if constexpr (kType == DType::kMXFP4) {
    const Float infinity = set_f(__builtin_inff());
    const Float power =
        from_bits(max_i(shift_left(load_u8_as_i32(at + byte), 23), set_i(0x00400000)));  // code 0: 2^-127
    scales.scale = mul_f(select_f(equal_f(power, infinity), set_f(__builtin_nanf("")), power), set_f(0.5f));
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

// ---- int8 -----------------------------------------------------------------------------------------------------------

// One block of one part against one token's block: sum += scale_w * scale_x * integer dot + minimum * scaled sum.
template <DType kType>
FL_INLINE Float add_block(Float sum, const Int* codes, const Scales& scales, const Int* x, const Int8Block& block) {
  constexpr int kShift = offset_shift(kType);
  constexpr int kMax = max_code(kType);
  Int low = zero_i();
  Int high = zero_i();
  if constexpr (kShift >= 0) {
    low = shift_left(set_i(block.minus_low), kShift);
    high = shift_left(set_i(block.minus_high), kShift);
  }
  low = dot_bytes<kMax, 4>(low, codes, x);
  high = dot_bytes<kMax, 4>(high, codes + 4, x + 4);
  const Float scale_x = set_f(block.scale);
  if constexpr (has_half_scales(kType)) {
    sum = fma_f(float_of(low), mul_f(scales.scale, scale_x), sum);
    return fma_f(float_of(high), mul_f(scales.scale_high, scale_x), sum);
  }
  sum = fma_f(float_of(add_i(low, high)), mul_f(scales.scale, scale_x), sum);
  if constexpr (has_minimum(kType)) sum = fma_f(scales.minimum, set_f(block.scaled_sum), sum);
  return sum;
}

FL_INLINE void load_activations(const int8_t* codes, Int* x) {
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) x[g] = set_i(word_at(codes + 4 * g));
}

// Asks for what the stream needs `kAhead` bytes from `offset` on, in its tile or the one after.
template <int64_t kAhead, int64_t kBytes>
FL_INLINE void prefetch_stream(const std::byte* tile, const std::byte* next, int64_t tile_bytes, int64_t offset) {
  const int64_t ahead = offset + kAhead;
  const std::byte* at = ahead < tile_bytes ? tile + ahead : next + (ahead - tile_bytes);
#pragma GCC unroll 16
  for (int64_t line = 0; line < kBytes; line += 64) _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T0);
}

template <DType kType, int kTiles>
void int8_single(const TileSet& set, const Int8Rows& rows, float* sums) {
  constexpr PackedBlockLayout kLayout = packed_block_layout(kType);
  constexpr int64_t kAhead = 8192 / kTiles;  // 2 KiB in four streams: measured best of 0.6 to 4 KiB
  const int64_t num_blocks = set.columns / kBlockColumns;
  const int64_t tile_bytes = packed_tile_bytes(kType, set.columns);
  for (int part = 0; part < kParts; ++part) {
    Float sum[kTiles];
#pragma GCC unroll 4
    for (int n = 0; n < kTiles; ++n) sum[n] = zero_f();
    for (int64_t b = 0; b < num_blocks; ++b) {
      Int x[8];
      load_activations(rows.codes + b * kBlockColumns, x);
      const int64_t offset = block_offset<kType>(b);
#pragma GCC unroll 4
      for (int n = 0; n < kTiles; ++n) {
        if (part == 0) prefetch_stream<kAhead, kLayout.block_bytes()>(set.tiles[n], set.next[n], tile_bytes, offset);
        Int codes[8];
        load_codes<kType>(set.tiles[n] + offset, part, codes);
        sum[n] = add_block<kType>(sum[n], codes, load_scales<kType>(set.tiles[n], b, part), x, rows.blocks[b]);
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n < kTiles; ++n) store_f(sums + n * kTileRows + part * kLanes, sum[n]);
  }
}

template <DType kType, int kTiles>
void int8_batch(const TileSet& set, const Int8Rows& rows, float* sums) {
  constexpr PackedBlockLayout kLayout = packed_block_layout(kType);
  const int64_t num_blocks = set.columns / kBlockColumns;
  const int64_t tile_bytes = packed_tile_bytes(kType, set.columns);
  const int64_t tokens = rows.num_tokens;
  __builtin_memset(sums, 0, static_cast<size_t>(tokens * kTiles * kTileRows) * sizeof(float));
  for (int part = 0; part < kParts; ++part) {
    for (int64_t b = 0; b < num_blocks; ++b) {
      const int64_t offset = block_offset<kType>(b);
      Int codes[kTiles][8];
      Scales scales[kTiles];
#pragma GCC unroll 2
      for (int n = 0; n < kTiles; ++n) {
        if (part == 0) prefetch_stream<2048, kLayout.block_bytes()>(set.tiles[n], set.next[n], tile_bytes, offset);
        load_codes<kType>(set.tiles[n] + offset, part, codes[n]);
        scales[n] = load_scales<kType>(set.tiles[n], b, part);
      }
      const int8_t* x_codes = rows.codes + b * tokens * kBlockColumns;
      const Int8Block* x_blocks = rows.blocks + b * tokens;
      float* sum = sums + part * kLanes;
      for (int64_t t = 0; t < tokens; ++t) {
        Int x[8];
        load_activations(x_codes + t * kBlockColumns, x);
#pragma GCC unroll 2
        for (int n = 0; n < kTiles; ++n) {
          float* at = sum + (t * kTiles + n) * kTileRows;
          store_f(at, add_block<kType>(load_f(at), codes[n], scales[n], x, x_blocks[t]));
        }
      }
    }
  }
}

template <DType kType>
void int8_tiles(const TileSet& set, const Int8Rows& rows, float* sums) {
  if (rows.num_tokens == 1) {
    switch (set.count) {
      case 1:
        return int8_single<kType, 1>(set, rows, sums);
      case 2:
        return int8_single<kType, 2>(set, rows, sums);
      case 3:
        return int8_single<kType, 3>(set, rows, sums);
      default:
        return int8_single<kType, 4>(set, rows, sums);
    }
  }
  if (set.count == 1) return int8_batch<kType, 1>(set, rows, sums);
  return int8_batch<kType, 2>(set, rows, sums);
}

// ---- float panels ---------------------------------------------------------------------------------------------------

// Columns [start, start + count) of a tile as floats, [column][16]. `start` is a multiple of a block.
template <DType kType>
void decode_chunk(const std::byte* tile, int64_t start, int64_t count, float* out) {
  if constexpr (packed_block_layout(kType).code_bytes > 0) {
    for (int64_t b = start / kBlockColumns; b < (start + count) / kBlockColumns; ++b) {
      for (int part = 0; part < kParts; ++part) {
        Int codes[8];
        load_codes<kType>(tile + block_offset<kType>(b), part, codes);
        const Scales scales = load_scales<kType>(tile, b, part);
        float* at = out + (b * kBlockColumns - start) * kTileRows + part * kLanes;
        constexpr bool kSigned = kType == DType::kQ8_0 && kSignedByteDot;
        const Int flip = set_i(kSigned ? 0x80 : 0);
        const Int offset = set_i(kSigned ? 128 : (offset_shift(kType) >= 0 ? 1 << offset_shift(kType) : 0));
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            const Int code = xor_i(and_i(shift_right(codes[g], 8 * i), set_i(255)), flip);
            const Float scale = has_half_scales(kType) && g >= 4 ? scales.scale_high : scales.scale;
            Float value = mul_f(scale, float_of(sub_i(code, offset)));
            if constexpr (has_minimum(kType)) value = add_f(value, scales.minimum);
            store_f(at + (4 * g + i) * kTileRows, value);
          }
        }
      }
    }
  } else if constexpr (kType == DType::kF16) {
    for (int64_t i = 0; i < count * kTileRows; i += kLanes)
      store_f(out + i, load_f16(tile + (start * kTileRows + i) * 2));
  } else {  // pairs of bfloat16
    const std::byte* pairs = tile + start * kTileRows * 2;
    for (int64_t k = 0; k < count; k += 2) {
      for (int part = 0; part < kParts; ++part) {
        const Int pair = load_i(pairs + k * kTileRows * 2 + part * kTypeBytes);
        float* at = out + k * kTileRows + part * kLanes;
        store_f(at, from_bits(shift_left(pair, 16)));
        store_f(at + kTileRows, from_bits(and_i(pair, set_i(static_cast<int32_t>(0xffff0000u)))));
      }
    }
  }
}

// How the weight vectors of a product lie and what they are multiplied as.
enum class Weights : uint8_t {
  kF32,    // a column of floats
  kPairs,  // a pair of columns of bfloat16, against pairs of bfloat16
  kF16,    // a column of halves, against floats
  kWide,   // a pair of columns of bfloat16, against two floats
};
constexpr int weight_stride(Weights kind) { return kind == Weights::kF16 ? 32 : 64; }
constexpr int panel_words(Weights kind) { return kind == Weights::kWide ? 2 : 1; }

template <Weights kKind>
FL_INLINE Float multiply_word(Float sum, Int weight, Int word) {
  if constexpr (kKind == Weights::kPairs) return dot_bf16(sum, weight, word);
  return fma_f(from_bits(weight), from_bits(word), sum);
}

// sums[t][g] += over `count` columns (or pairs) of the weight vectors at `w[g]` times the panel's tokens.
template <int kGroups, int kTokens, Weights kKind>
FL_INLINE void multiply_panel(const std::byte* const* w, const std::byte* x, int64_t count, float* sums,
                              int64_t stride) {
  Float sum[kTokens][kGroups];
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) sum[t][g] = load_f(sums + t * stride + g * kLanes);
  }
  const std::byte* from[kGroups];
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) from[g] = w[g];
  for (int64_t k = 0; k < count; ++k) {
    Int weight[kGroups];
    Int second[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      weight[g] = kKind == Weights::kF16 ? bits_f(load_f16(from[g])) : load_i(from[g]);
      if constexpr (kKind == Weights::kWide) {
        second[g] = and_i(weight[g], set_i(static_cast<int32_t>(0xffff0000u)));
        weight[g] = shift_left(weight[g], 16);
      }
      _mm_prefetch(reinterpret_cast<const char*>(from[g] + 2048), _MM_HINT_T0);
      from[g] += weight_stride(kKind);
    }
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      const Int value = set_i(word_at(x + 4 * t));
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) sum[t][g] = multiply_word<kKind>(sum[t][g], weight[g], value);
      if constexpr (kKind == Weights::kWide) {
        const Int next = set_i(word_at(x + 4 * (kTokens + t)));
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) sum[t][g] = multiply_word<kKind>(sum[t][g], second[g], next);
      }
    }
    x += 4 * kTokens * panel_words(kKind);
  }
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) store_f(sums + t * stride + g * kLanes, sum[t][g]);
  }
}

constexpr int kPanelTokens = kLanes == 16 ? 12 : 6;

int panel_width(int64_t tokens) {
  if (tokens == 1) return 1;
  if (tokens == 2) return 2;
  if (tokens <= 4) return 4;
  if (kPanelTokens == 6) return 6;
  return tokens <= 8 ? 8 : 12;
}

// One panel against up to 2 (a single token: 4) weight vectors.
template <int kGroups, Weights kKind>
void multiply_width(int width, const std::byte* const* w, const std::byte* x, int64_t count, float* sums,
                    int64_t stride) {
  if (width == 1) return multiply_panel<kGroups, 1, kKind>(w, x, count, sums, stride);
  if (width == 2) return multiply_panel<kGroups, 2, kKind>(w, x, count, sums, stride);
  if (width == 4) return multiply_panel<kGroups, 4, kKind>(w, x, count, sums, stride);
  if constexpr (kPanelTokens == 12) {
    if (width == 8) return multiply_panel<kGroups, 8, kKind>(w, x, count, sums, stride);
  }
  multiply_panel<kGroups, kPanelTokens, kKind>(w, x, count, sums, stride);
}

// One chunk of columns: all panels against all tiles. `chunk[n]`: tile n's weights of the chunk. `count`: weight
// vectors; `first` panel words lie before the chunk, per token.
template <Weights kKind>
void multiply_chunk(const std::byte* const* chunk, int num_tiles, const Panels& panels, int64_t first, int64_t count,
                    float* sums) {
  const int64_t stride = num_tiles * kTileRows;
  const int64_t panel_bytes = kPanelTokens * panels.columns * (kKind == Weights::kPairs ? 2 : 4);
  const std::byte* w[kMaxTiles * kParts];
  const int groups = num_tiles * kParts;
  for (int g = 0; g < groups; ++g) w[g] = chunk[g / kParts] + g % kParts * (weight_stride(kKind) / kParts);
  for (int64_t t = 0; t < panels.num_tokens; t += kPanelTokens) {
    const int64_t left = panels.num_tokens - t;
    const int width = panel_width(left < kPanelTokens ? left : kPanelTokens);
    const std::byte* x = panels.data + t / kPanelTokens * panel_bytes + first * width * 4;
    float* at = sums + t * stride;
    int g = 0;
    if (width == 1 && groups == 4) {
      multiply_panel<4, 1, kKind>(w, x, count, at, stride);
      continue;
    }
    for (; g + 2 <= groups; g += 2) multiply_width<2, kKind>(width, w + g, x, count, at + g * kLanes, stride);
    if (g < groups) multiply_width<1, kKind>(width, w + g, x, count, at + g * kLanes, stride);
  }
}

// Columns decoded at once: what is decoded stays in the first cache (four tiles beside each other for a single token),
// and sums are parked seldom.
FL_INLINE int64_t chunk_columns(int64_t tokens) { return tokens <= 4 ? kChunkColumns / 2 : kChunkColumns; }

// Asks for the weights of the chunk after this one, in the second cache.
template <DType kType>
FL_INLINE void prefetch_chunk(const TileSet& set, int64_t start, int64_t count) {
  const int64_t tile_bytes = packed_tile_bytes(kType, set.columns);
  const int64_t from = tile_bytes * (start + count) / set.columns;
  const int64_t bytes = tile_bytes * count / set.columns;
  for (int n = 0; n < set.count; ++n) {
    const std::byte* at = from < tile_bytes ? set.tiles[n] + from : set.next[n];
    for (int64_t line = 0; line < bytes; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T1);
    }
  }
}

FL_INLINE void clear_sums(const TileSet& set, int64_t tokens, float* sums) {
  const int64_t last = tokens % kPanelTokens;
  const int64_t stored = tokens - last + (last > 0 ? panel_width(last) : 0);
  __builtin_memset(sums, 0, static_cast<size_t>(stored * set.count * kTileRows) * sizeof(float));
}

template <DType kType>
void f32_tiles(const TileSet& set, const Panels& panels, float* sums, float* scratch) {
  clear_sums(set, panels.num_tokens, sums);
  if constexpr (kType == DType::kF16 || kType == DType::kBF16) {
    if (panels.num_tokens <= kPanelTokens) {  // what one panel would use once need not be decoded ahead
      constexpr Weights kKind = kType == DType::kF16 ? Weights::kF16 : Weights::kWide;
      return multiply_chunk<kKind>(set.tiles, set.count, panels, 0,
                                   (set.columns + panel_words(kKind) - 1) / panel_words(kKind), sums);
    }
  }
  const int64_t step = chunk_columns(panels.num_tokens);
  for (int64_t start = 0; start < set.columns; start += step) {
    const int64_t left = set.columns - start;
    const int64_t count = left < step ? left : step;
    if constexpr (kType != DType::kF32) prefetch_chunk<kType>(set, start, count);
    const std::byte* chunk[kMaxTiles];
    for (int n = 0; n < set.count; ++n) {
      if constexpr (kType == DType::kF32) {
        chunk[n] = set.tiles[n] + start * kTileRows * 4;
      } else {
        float* decoded = scratch + n * kChunkColumns * kTileRows;
        decode_chunk<kType>(set.tiles[n], start, count, decoded);
        chunk[n] = reinterpret_cast<const std::byte*>(decoded);
      }
    }
    multiply_chunk<Weights::kF32>(chunk, set.count, panels, start, count, sums);
  }
}

// The floats of a chunk, rounded and paired; in place behind the reader.
FL_INLINE void pair_chunk(float* decoded, int64_t count) {
  auto* out = reinterpret_cast<std::byte*>(decoded);
  for (int64_t k = 0; k < count; k += 2) {
    Int pairs[kParts];
    for (int part = 0; part < kParts; ++part) {
      const float* even = decoded + k * kTileRows + part * kLanes;
      pairs[part] = pack_bf16(load_f(even), load_f(even + kTileRows));
    }
    for (int part = 0; part < kParts; ++part) store_i(out + k / 2 * 64 + part * kTypeBytes, pairs[part]);
  }
}

template <DType kType>
void bf16_tiles(const TileSet& set, const Panels& panels, float* sums, float* scratch) {
  clear_sums(set, panels.num_tokens, sums);
  const int64_t step = chunk_columns(panels.num_tokens);
  for (int64_t start = 0; start < set.columns; start += step) {
    const int64_t left = set.columns - start;
    const int64_t count = left < step ? left : step;
    if constexpr (kType != DType::kBF16) prefetch_chunk<kType>(set, start, count);
    const std::byte* chunk[kMaxTiles];
    for (int n = 0; n < set.count; ++n) {
      if constexpr (kType == DType::kBF16) {
        chunk[n] = set.tiles[n] + start * kTileRows * 2;
      } else {
        float* decoded = scratch + n * kChunkColumns * kTileRows;
        if constexpr (kType == DType::kF32) {
          const size_t bytes = static_cast<size_t>(count * kTileRows) * 4;
          __builtin_memcpy(decoded, set.tiles[n] + start * kTileRows * 4, bytes);
          __builtin_memset(decoded + count * kTileRows, 0, count % 2 * kTileRows * 4);
        } else {
          decode_chunk<kType>(set.tiles[n], start, (count + 1) / 2 * 2, decoded);
        }
        pair_chunk(decoded, count);
        chunk[n] = reinterpret_cast<const std::byte*>(decoded);
      }
    }
    multiply_chunk<Weights::kPairs>(chunk, set.count, panels, start / 2, (count + 1) / 2, sums);
  }
}

}  // namespace
}  // namespace firstlight::kernels
