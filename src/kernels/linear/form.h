// SPDX-License-Identifier: Apache-2.0
// The matrix kernels of one instruction set, as a table of functions: what linear, fused_linear and batched_linear are
// driven through (matmul.h). Kernel text: tile_*.h, row_kernels.h and rows_avx512.h; one table per form_<isa>.cc.
//
// Words: a tile is 16 packed rows of a weight (packing.h); a token is a row of activations; `sums` holds the results of
// a few tiles side by side, [token][tile][16] floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/cpu/vector_ops.h"
#include "tensor/dtype.h"

namespace firstlight::kernels {

inline constexpr int kMaxTiles = 4;            // side by side in one call
inline constexpr int64_t kChunkColumns = 256;  // weights are decoded to floats in chunks of at most so many columns
inline constexpr int64_t kPanelSlack = 12;     // tokens a last panel may be wider than what it holds

// Of a block of 32 activations rounded to int8: x ~ scale * q.
struct Int8Block {
  float scale;
  float scaled_sum;    // scale * sum of q
  int32_t minus_sum;   // -(sum of q)
  int32_t minus_high;  // -(sum of the last 16 q)
};

// Activations of `num_tokens` tokens in int8: codes [block][token][32], blocks [block][token].
struct Int8Rows {
  int8_t* codes;
  Int8Block* blocks;
  int64_t num_tokens;
};

// Tokens of the panel that `left` tokens begin with. A narrow rest behind a full panel would leave registers idle: it
// takes some of the panel's.
constexpr int64_t panel_count(int64_t full, int64_t left) {
  if (left <= full) return left;
  return left <= full + full / 3 ? full - full / 3 : full;
}

// Activations in panels of `panel_tokens` (the last ones narrower): per panel [column][token] floats, or
// [column pair][token][2] bfloat16. `columns` is the padded count.
struct Panels {
  std::byte* data;
  int64_t num_tokens;
  int64_t columns;
};

// Rows of memory that are wanted after the products, `stride` bytes apart from token to token, as many lines of each as
// there are tiles: kernels ask for them by the way.
struct RowsAhead {
  const std::byte* at;
  int64_t stride;
  bool written;
};
inline constexpr int kMaxAhead = 4;

struct TileSet {
  const std::byte* tiles[kMaxTiles];
  const std::byte*
      next[kMaxTiles];  // where each stream goes on after its tile, for prefetching; may be the tile itself
  int count = 0;
  int64_t columns = 0;
  RowsAhead ahead[kMaxAhead];
  int num_ahead = 0;
};

struct NormOptions {
  bool rms = false;
  double eps = 0;
  double offset = 0;
  const float* weight = nullptr;  // null: ones
};

using Int8Kernel = void (*)(const TileSet& tiles, const Int8Rows& rows, float* sums);
// `scratch`: kMaxTiles * kChunkColumns * 16 * 2 floats.
using PanelKernel = void (*)(const TileSet& tiles, const Panels& panels, float* sums, float* scratch);

struct Form {
  int panel_tokens;  // of a full panel
  int single_tiles;  // tiles at once for one token
  int batch_tiles;   // and for more

  // The kernels of a stored type; null where there is none (int8: only for block formats).
  Int8Kernel (*int8_kernel)(tensor::DType type);
  PanelKernel (*f32_kernel)(tensor::DType type);
  PanelKernel (*bf16_kernel)(tensor::DType type);

  // The panel width that `tokens` (1 .. panel_tokens) are stored in.
  int (*panel_width)(int64_t tokens);

  // out[0 .. columns) from x, the rest up to `padded` zero. Sum of squares in float64.
  void (*normalise_row)(const float* x, int64_t columns, int64_t padded, const NormOptions& norm, float* out);
  // Rounds a row of `padded` floats into token `token` of `rows`.
  void (*quantise_row)(const float* row, int64_t padded, int64_t token, const Int8Rows& rows);
  // The same of four rows, `stride` floats apart, into tokens `token` to `token + 3`; null: row by row.
  void (*quantise_four)(const float* rows, int64_t stride, int64_t padded, int64_t token, const Int8Rows& out);
  // Stores `tokens` rows of `padded` floats, `stride` floats apart, as one panel.
  void (*store_panel_f32)(const float* rows, int64_t stride, int64_t tokens, int64_t padded, std::byte* panel);
  void (*store_panel_bf16)(const float* rows, int64_t stride, int64_t tokens, int64_t padded, std::byte* panel);

  const VectorOps* vector_ops;
};

const Form& form_avx2();
const Form& form_avx512();  // needs AVX-512 F, BW, DQ, VL, VNNI and BF16

}  // namespace firstlight::kernels
