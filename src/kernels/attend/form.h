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

struct AttendForm {
  // scores[i][j] = q[i] . keys[j]; rows of q are `width` (padded) floats apart, rows of scores kKeyBlock apart.
  void (*scores)(const float* q, int num_queries, int64_t width, const StoredRows& keys, float* scores);
  // sums[i] += sum over j of weights[i][j] * values[j]; `width` padded, rows of sums `width` apart.
  void (*accumulate)(const float* weights, int num_queries, int64_t width, const StoredRows& values, float* sums);
  // One step of the running softmax of one query: where one of `count` scores (a multiple of 16) lies above *top,
  // raises it to the next whole number from there on; turns the scores into exp(score - top) and returns their sum.
  // *kept: what earlier sums are to be multiplied with, 1 where the top has stayed.
  float (*step)(float* scores, int64_t count, float* top, float* kept);
  // far = far * kept + near, near = 0; `width` padded.
  void (*fold)(float* near, float kept, double* far, int64_t width);
  // `count` stored elements as floats.
  void (*decode)(tensor::DType dtype, const std::byte* from, int64_t count, float* out);
  const VectorOps* vector_ops;
};

const AttendForm& attend_form_avx2();
const AttendForm& attend_form_avx512();

}  // namespace firstlight::kernels
