// SPDX-License-Identifier: Apache-2.0
// Matrix products, out[t, r] = sum over k of x[t, k] w[r, k], as parts that generated kernels are put together from
// (linear.cc prints signature, loads and epilogue around them). Three ways through the matrix:
//   FL_ROWS_BY_THREADS  a thread has a weight row and FL_TOKENS tokens: processors that run a block as loops
//   FL_ROWS_BY_WARPS    a warp has a weight row, its lanes every warp-th 16 columns
//   FL_TILES            a block of 8 x 8 threads has 32 x 32 results; weights are decoded once into local memory
// Sums are of 16 products each, then over those; float32.
#include "dialect/values.fl.h"
#include "dialect/decode.fl.h"

#define FL_CHUNKS(columns) (((columns) + 15) / 16)

// acc[i] += the part of tokens first + i that chunk c contributes; tokens beyond the last repeat it.
#define FL_ADD_CHUNK(acc, weight_row, decode, c, first, tokens)                               \
  {                                                                                           \
    float w[16];                                                                              \
    const int n = columns - 16 * (c) < 16 ? columns - 16 * (c) : 16;                          \
    decode(weight_row, c, n, w);                                                              \
    for (int i = 0; i < FL_TOKENS; ++i) {                                                     \
      const int t = (first) + i < (tokens) ? (first) + i : (tokens) - 1;                      \
      FL_GLOBAL(const float) xs = x + t * x_stride + 16 * (fl_i64)(c);                        \
      float sum = 0.0f;                                                                       \
      if (n == 16) {                                                                          \
        for (int j = 0; j < 16; ++j) sum += w[j] * xs[j];                                     \
      } else {                                                                                \
        for (int j = 0; j < n; ++j) sum += w[j] * xs[j];                                      \
      }                                                                                       \
      acc[i] += sum;                                                                          \
    }                                                                                         \
  }

#define FL_ROWS_BY_THREADS(acc, weight_row, decode, first, tokens) \
  for (int c = 0; c < FL_CHUNKS(columns); ++c) FL_ADD_CHUNK(acc, weight_row, decode, c, first, tokens)

#define FL_ROWS_BY_WARPS(acc, weight_row, decode, first, tokens)                                                \
  for (int c = fl_lane(); c < FL_CHUNKS(columns); c += FL_WARP) FL_ADD_CHUNK(acc, weight_row, decode, c, first, tokens) \
  for (int i = 0; i < FL_TOKENS; ++i) acc[i] = fl_warp_sum(acc[i]);

#define FL_TILE 32
#define FL_TILES(acc, weights, stride, decode)                                                                  \
  for (int k = 0; k < columns; k += FL_TILE) {                                                                  \
    const int own = fl_local_id(0) + 8 * fl_local_id(1); /* decodes 16 columns of one weight row */             \
    float w[16];                                                                                                \
    const int wr = first_row + own / 2 < rows ? first_row + own / 2 : rows - 1;                                 \
    const int n = columns - k - 16 * (own & 1);                                                                 \
    if (n > 0) decode((weights) + wr * (stride), k / 16 + (own & 1), n < 16 ? n : 16, w);                       \
    for (int j = 0; j < 16; ++j) weight_tile[own / 2][16 * (own & 1) + j] = n > 0 ? w[j] : 0.0f;                \
    const int xt = first_token + own / 2 < tokens ? first_token + own / 2 : tokens - 1;                         \
    for (int j = 0; j < 16; ++j) {                                                                              \
      x_tile[own / 2][16 * (own & 1) + j] = j < n ? x[xt * x_stride + k + 16 * (own & 1) + j] : 0.0f;           \
    }                                                                                                           \
    FL_BARRIER();                                                                                               \
    float part[4][4];                                                                                           \
    for (int a = 0; a < 4; ++a) {                                                                               \
      for (int b = 0; b < 4; ++b) part[a][b] = 0.0f;                                                            \
    }                                                                                                           \
    for (int j = 0; j < FL_TILE; ++j) {                                                                         \
      float xs[4];                                                                                              \
      float ws[4];                                                                                              \
      for (int a = 0; a < 4; ++a) {                                                                             \
        xs[a] = x_tile[fl_local_id(1) + 8 * a][j];                                                              \
        ws[a] = weight_tile[fl_local_id(0) + 8 * a][j];                                                         \
      }                                                                                                         \
      for (int a = 0; a < 4; ++a) {                                                                             \
        for (int b = 0; b < 4; ++b) part[a][b] += xs[a] * ws[b];                                                \
      }                                                                                                         \
    }                                                                                                           \
    for (int a = 0; a < 4; ++a) {                                                                               \
      for (int b = 0; b < 4; ++b) acc[a][b] += part[a][b];                                                      \
    }                                                                                                           \
    FL_BARRIER();                                                                                               \
  }
