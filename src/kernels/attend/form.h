// SPDX-License-Identifier: Apache-2.0
// The inner loops of attend for one instruction set, as a table of functions (attend/tiles.h is their text). Widths
// that are said to be padded are multiples of 16, with zeros behind the real elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/cpu/vector_ops.h"
#include "tensor/dtype.h"

namespace firstlight::kernels {

inline constexpr int64_t kKeyBlock = 64;  // keys scored before one step of the running softmax

// Rows of f32, f16 or bf16 elements, or of a cache's blocks (tensor/state_rows.h), `stride` bytes apart.
struct StoredRows {
  tensor::DType dtype;
  const std::byte* data;
  int64_t stride;
  int64_t count;
};

// The rows of a block of keys or values by their places; null where a place has none. Places `begin` to `end`,
// multiples of 16, are looked at.
struct PlacedRows {
  tensor::DType dtype;
  int64_t width = 0;
  int64_t begin = 0;
  int64_t end = 0;
  const std::byte* rows[kKeyBlock] = {};
  bool whole = false;                      // all places have a row
  const std::byte* ahead[kKeyBlock] = {};  // of whole ones: rows that come later (or some row), to be asked for
};

// Dwords of a row of `width` elements as pairs of bfloat16.
constexpr int64_t row_pairs(int64_t width) { return (width + 31) / 32 * 16; }

inline constexpr int kFewQueries = 6;
inline constexpr int kTotalLanes = 16;

// Attention in pairs of bfloat16 with float32 sums: queries, keys, values and weights are rounded, as many queries as
// there are share what is made of a block. What a query gets does not depend on those beside it.
struct PairForm {
  // One query, scaled: row_pairs(width) dwords.
  void (*pack_query)(const float* q, float scale, int64_t width, uint32_t* pairs);
  // To [row_pairs(width)][kKeyBlock].
  void (*pack_keys)(const PlacedRows& keys, uint32_t* pairs);
  // To [kKeyBlock / 2][width padded to 16], a pair of neighbouring places in a dword. Whether all are finite.
  bool (*pack_values)(const PlacedRows& values, uint32_t* pairs);
  // scores[i][place] = q[i] . key, rows of scores kKeyBlock apart; `pairs`: row_pairs(width).
  void (*scores)(const uint32_t* q, int num_queries, int64_t pairs, const uint32_t* keys, float* scores);
  // The same from the rows themselves, for queries so few that they are through with a key at once; scores of the
  // places begin .. end.
  void (*score_rows)(const uint32_t* q, int num_queries, const PlacedRows& keys, float* scores);
  // AttendForm::step for each query and all places, but that a top is raised further, to be raised seldom, and weights
  // become pairs; totals[i][kTotalLanes] = totals[i] * kept[i] + what the weights add to them, lane by lane.
  void (*step)(const float* scores, int num_queries, float* tops, float* kept, float* totals, uint32_t* weights);
  // sums[i] = sums[i] * kept[i] + sum over the places begin .. end (even) of weights times values; `width` padded.
  void (*accumulate)(const uint32_t* weights, const float* kept, int num_queries, int64_t width, const uint32_t* values,
                     int64_t begin, int64_t end, float* sums);
  // The same from the rows themselves, for queries so few that they are through with a value at once.
  void (*accumulate_rows)(const uint32_t* weights, const float* kept, int num_queries, int64_t width,
                          const PlacedRows& values, float* sums);
};

struct AttendForm {
  // scores[i][j] = q[i] . keys[j]; rows of q are `width` (padded) floats apart, rows of scores kKeyBlock apart.
  void (*scores)(const float* q, int num_queries, int64_t width, const StoredRows& keys, float* scores);
  // sums[i] += sum over j of weights[i][j] * values[j]; `width` padded, rows of sums `width` apart.
  void (*accumulate)(const float* weights, int num_queries, int64_t width, const StoredRows& values, float* sums);
  // One step of the running softmax of one query: where one of `count` scores (a multiple of 16) lies above *top,
  // raises it to the next whole number from there on; turns the scores into exp(score - top) and returns their sum.
  // *kept: what earlier sums are to be multiplied with, 1 where the top has stayed.
  float (*step)(float* scores, int64_t count, float* top, float* kept);
  // far = far * kept + near * factor; `width` padded.
  void (*join)(const float* near, double factor, double kept, double* far, int64_t width);
  // `count` stored elements as floats.
  void (*decode)(tensor::DType dtype, const std::byte* from, int64_t count, float* out);
  const VectorOps* vector_ops;
  const PairForm* pairs = nullptr;  // null: this instruction set has no products of bfloat16
};

const AttendForm& attend_form_avx2();
const AttendForm& attend_form_avx512();

}  // namespace firstlight::kernels
