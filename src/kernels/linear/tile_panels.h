// SPDX-License-Identifier: Apache-2.0
// Tiles of every stored type against panels of float or bfloat16 activations: weights decoded chunk by chunk unless
// they can be multiplied as they lie, then register-tiled products. In the words of kernels/common/cpu/simd_*.h;
// included by form_<isa>.cc alone, after tile_codes.h.
#pragma once

namespace firstlight::kernels {
namespace {

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
        constexpr bool kSigned = (kType == DType::kQ8_0 || kType == DType::kInt8G) && kSignedByteDot;
        const Int flip = set_i(kSigned ? 0x80 : 0);
        const Int offset = set_i(kSigned ? 128 : (offset_shift(kType) >= 0 ? 1 << offset_shift(kType) : 0));
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            const Int code = xor_i(and_i(shift_right(codes[g], 8 * i), set_i(255)), flip);
            const Float scale = has_half_scales(kType) && g >= 4 ? scales.scale_high : scales.scale;
            Float whole;
            if constexpr (kType == DType::kFP8G) {
              whole = e4m3_of(code);
            } else {
              whole = float_of(sub_i(code, offset));
            }
            if constexpr (has_zero(kType)) whole = sub_f(whole, scales.zero);
            Float value = mul_f(scale, whole);
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

// Weight vectors side by side, and what is asked for while they are read: a bit more with every vector.
struct Streams {
  const std::byte* at[kMaxTiles * kParts];
  const std::byte* ahead[kMaxTiles * kParts];
  int64_t ahead_step;
};

// sums[t][g] += over `count` columns (or pairs) of the weight vectors of stream `group + g` times the panel's tokens;
// `fresh`: from zero.
template <int kGroups, int kTokens, Weights kKind>
FL_INLINE void multiply_panel(const Streams& w, int group, const std::byte* x, int64_t count, float* sums,
                              int64_t stride, bool fresh) {
  Float sum[kTokens][kGroups];
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) sum[t][g] = fresh ? zero_f() : load_f(sums + t * stride + g * kLanes);
  }
  const std::byte* from[kGroups];
  const std::byte* ahead[kGroups];
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) {
    from[g] = w.at[group + g];
    ahead[g] = w.ahead[group + g];
  }
  const int64_t ahead_step = w.ahead_step;
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
      _mm_prefetch(reinterpret_cast<const char*>(ahead[g]), _MM_HINT_T0);
      from[g] += weight_stride(kKind);
      ahead[g] += ahead_step;
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
void multiply_width(int width, const Streams& w, int group, const std::byte* x, int64_t count, float* sums,
                    int64_t stride, bool fresh) {
  if (width == 1) return multiply_panel<kGroups, 1, kKind>(w, group, x, count, sums, stride, fresh);
  if (width == 2) return multiply_panel<kGroups, 2, kKind>(w, group, x, count, sums, stride, fresh);
  if (width == 4) return multiply_panel<kGroups, 4, kKind>(w, group, x, count, sums, stride, fresh);
  if constexpr (kPanelTokens == 12) {
    if (width == 8) return multiply_panel<kGroups, 8, kKind>(w, group, x, count, sums, stride, fresh);
  }
  multiply_panel<kGroups, kPanelTokens, kKind>(w, group, x, count, sums, stride, fresh);
}

// One chunk of columns: all panels against all tiles. `chunk[n]`: tile n's weights of the chunk; `next[n]`: those that
// will be read from memory behind them, or null. `count`: weight vectors; `first` panel words lie before the chunk, per
// token; with none the sums begin there.
template <Weights kKind>
void multiply_chunk(const TileSet& set, const std::byte* const* chunk, const std::byte* const* next,
                    const Panels& panels, int64_t first, int64_t count, float* sums) {
  const int64_t stride = set.count * kTileRows;
  const int64_t token_bytes = panels.columns * (kKind == Weights::kPairs ? 2 : 4);
  const int groups = set.count * kParts;
  // One panel reads weights as fast as they come. Several read them again and again: the next chunk arrives meanwhile.
  const int64_t num_panels = (panels.num_tokens + kPanelTokens - 1) / kPanelTokens;
  const bool spread = next != nullptr && num_panels > 1;
  Streams w;
  w.ahead_step = spread ? (weight_stride(kKind) + num_panels - 1) / num_panels : weight_stride(kKind);
  for (int g = 0; g < groups; ++g) {
    w.at[g] = chunk[g / kParts] + g % kParts * (weight_stride(kKind) / kParts);
    w.ahead[g] = spread ? next[g / kParts] : w.at[g] + 2048;
  }
  int64_t tokens = 0;
  for (int64_t t = 0; t < panels.num_tokens; t += tokens) {
    tokens = panel_count(kPanelTokens, panels.num_tokens - t);
    const int width = panel_width(tokens);
    for (int64_t i = 0; first == 0 && i < tokens; ++i) prefetch_rows(set, t + i);
    const std::byte* x = panels.data + t * token_bytes + first * width * 4;
    float* at = sums + t * stride;
    const bool fresh = first == 0;
    int g = 0;
    if (width == 1 && groups == 4) {
      multiply_panel<4, 1, kKind>(w, 0, x, count, at, stride, fresh);
      continue;
    }
    for (; g + 2 <= groups; g += 2) multiply_width<2, kKind>(width, w, g, x, count, at + g * kLanes, stride, fresh);
    if (g < groups) multiply_width<1, kKind>(width, w, g, x, count, at + g * kLanes, stride, fresh);
    for (int i = 0; spread && i < groups; ++i) w.ahead[i] += count * w.ahead_step;
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

template <DType kType>
void f32_tiles(const TileSet& set, const Panels& panels, float* sums, float* scratch) {
  if constexpr (kType == DType::kF16 || kType == DType::kBF16) {
    if (panels.num_tokens <= kPanelTokens) {  // what one panel would use once need not be decoded ahead
      constexpr Weights kKind = kType == DType::kF16 ? Weights::kF16 : Weights::kWide;
      return multiply_chunk<kKind>(set, set.tiles, nullptr, panels, 0,
                                   (set.columns + panel_words(kKind) - 1) / panel_words(kKind), sums);
    }
  }
  const int64_t step = chunk_columns(panels.num_tokens);
  for (int64_t start = 0; start < set.columns; start += step) {
    const int64_t left = set.columns - start;
    const int64_t count = left < step ? left : step;
    if constexpr (kType != DType::kF32) prefetch_chunk<kType>(set, start, count);
    const std::byte* chunk[kMaxTiles];
    const std::byte* next[kMaxTiles];
    for (int n = 0; n < set.count; ++n) {
      if constexpr (kType == DType::kF32) {
        chunk[n] = set.tiles[n] + start * kTileRows * 4;
        next[n] = left > step ? chunk[n] + step * kTileRows * 4 : set.next[n];
      } else {
        float* decoded = scratch + n * kChunkColumns * kTileRows;
        decode_chunk<kType>(set.tiles[n], start, count, decoded);
        chunk[n] = reinterpret_cast<const std::byte*>(decoded);
      }
    }
    const std::byte* const* later = kType == DType::kF32 ? next : nullptr;
    multiply_chunk<Weights::kF32>(set, chunk, later, panels, start, count, sums);
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
  const int64_t step = chunk_columns(panels.num_tokens);
  for (int64_t start = 0; start < set.columns; start += step) {
    const int64_t left = set.columns - start;
    const int64_t count = left < step ? left : step;
    if constexpr (kType != DType::kBF16) prefetch_chunk<kType>(set, start, count);
    const std::byte* chunk[kMaxTiles];
    const std::byte* next[kMaxTiles];
    for (int n = 0; n < set.count; ++n) {
      if constexpr (kType == DType::kBF16) {
        chunk[n] = set.tiles[n] + start * kTileRows * 2;
        next[n] = left > step ? chunk[n] + step * kTileRows * 2 : set.next[n];
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
    const std::byte* const* later = kType == DType::kBF16 ? next : nullptr;
    multiply_chunk<Weights::kPairs>(set, chunk, later, panels, start / 2, (count + 1) / 2, sums);
  }
}

}  // namespace
}  // namespace firstlight::kernels
