// SPDX-License-Identifier: Apache-2.0
// Tiles of block formats against activations rounded to int8: integer dot products of the codes, scaled per block. In
// the words of kernels/common/cpu/simd_*.h; included by form_<isa>.cc alone, after tile_codes.h.
#pragma once

namespace firstlight::kernels {
namespace {

// What a token's block begins its integer sums with: the offset that its codes have, taken off; the last 16 columns by
// themselves where they have a scale of their own.
struct DotStart {
  Int low;
  Int high;
};
template <DType kType>
FL_INLINE DotStart start_of(const Int8Block& block) {
  constexpr int kShift = offset_shift(kType);
  if constexpr (kShift < 0) return {zero_i(), zero_i()};
  if constexpr (!has_half_scales(kType)) return {shift_left(set_i(block.minus_sum), kShift), zero_i()};
  return {shift_left(set_i(block.minus_sum - block.minus_high), kShift), shift_left(set_i(block.minus_high), kShift)};
}

// One block of one part against one token's block: sum += scale_w * scale_x * integer dot + minimum * scaled sum.
template <DType kType>
FL_INLINE Float add_block(Float sum, const Int* codes, const Scales& scales, const Int* x, const DotStart& start,
                          const Int8Block& block) {
  constexpr int kMax = max_code(kType);
  const Int low = dot_bytes<kMax, 4>(start.low, codes, x);
  const Int high = dot_bytes<kMax, 4>(start.high, codes + 4, x + 4);
  const Float scale_x = set_f(block.scale);
  if constexpr (has_zero(kType)) {  // exact: whole numbers below 2^24
    const Float offset = mul_f(scales.zero, set_f(static_cast<float>(block.minus_sum)));
    return fma_f(add_f(float_of(add_i(low, high)), offset), mul_f(scales.scale, scale_x), sum);
  }
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
      const DotStart start = start_of<kType>(rows.blocks[b]);
      const int64_t offset = block_offset<kType>(b);
#pragma GCC unroll 4
      for (int n = 0; n < kTiles; ++n) {
        if (part == 0) prefetch_stream<kAhead, kLayout.block_bytes()>(set.tiles[n], set.next[n], tile_bytes, offset);
        Int codes[8];
        load_codes<kType>(set.tiles[n] + offset, part, codes);
        sum[n] = add_block<kType>(sum[n], codes, load_scales<kType>(set.tiles[n], b, part), x, start, rows.blocks[b]);
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n < kTiles; ++n) store_f(sums + n * kTileRows + part * kLanes, sum[n]);
  }
}

// Block `b` of some tiles against all tokens. kFirst: the sums begin here.
template <DType kType, int kTiles, bool kFirst>
void int8_block(const TileSet& set, int64_t tile_bytes, const Int8Rows& rows, int64_t b, int part, float* sums) {
  constexpr PackedBlockLayout kLayout = packed_block_layout(kType);
  const int64_t offset = block_offset<kType>(b);
  const int64_t tokens = rows.num_tokens;
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
    if constexpr (kFirst) prefetch_rows(set, t);
    const DotStart start = start_of<kType>(x_blocks[t]);
#pragma GCC unroll 2
    for (int n = 0; n < kTiles; ++n) {
      float* at = sum + (t * kTiles + n) * kTileRows;
      store_f(at, add_block<kType>(kFirst ? zero_f() : load_f(at), codes[n], scales[n], x, start, x_blocks[t]));
    }
  }
}

template <DType kType, int kTiles>
void int8_batch(const TileSet& set, const Int8Rows& rows, float* sums) {
  const int64_t num_blocks = set.columns / kBlockColumns;
  const int64_t tile_bytes = packed_tile_bytes(kType, set.columns);
  for (int part = 0; part < kParts; ++part) {
    int8_block<kType, kTiles, true>(set, tile_bytes, rows, 0, part, sums);
    for (int64_t b = 1; b < num_blocks; ++b) int8_block<kType, kTiles, false>(set, tile_bytes, rows, b, part, sums);
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

}  // namespace
}  // namespace firstlight::kernels
