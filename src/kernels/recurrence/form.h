// SPDX-License-Identifier: Apache-2.0
// The inner loops of the recurrences for one instruction set, as a table of functions. Their text stands in
// matrix_tiles.h (gla, delta), dplr_tiles.h and channel_tiles.h (selective, elementwise, conv1d). Widths said to be
// padded are multiples of 16 floats.
#pragma once

#include <cstdint>

namespace firstlight::kernels {

inline constexpr int64_t kMatrixChunk = 32;   // tokens that gla and delta take together
inline constexpr int64_t kChannelBlock = 16;  // channels of one task of the selective form
inline constexpr int64_t kConvBlock = 64;     // channels of one task of conv1d
inline constexpr int64_t kMostConvTaps = 16;  // that the fast conv1d takes

// Static, for files of different instruction sets may not share one copy.
static inline int64_t padded(int64_t width) { return (width + 15) / 16 * 16; }

// One head over `count` <= kMatrixChunk tokens of one sequence; row t of an operand is t strides behind row 0.
struct MatrixChunk {
  int64_t key, value, count;
  int64_t next;  // tokens of the sequence that follow in the next chunk
  const float* q;
  const float* k;
  int64_t qk_stride;
  const float* v;
  float* y;
  int64_t v_stride;  // of v and y
  const float* decay;
  int64_t decay_stride;  // 0: the same for all tokens
  bool decay_per_key;    // [key] logarithms a token, not one
  const float* beta;     // null: gla; else delta
  int64_t beta_stride;
  const float* bonus;  // [key]; null: none (gla alone)
  float* state;        // [key][state_stride], columns padded
  int64_t state_stride;
  float* scratch;  // matrix_chunk_floats(key, value), 64-byte aligned
};
static inline int64_t matrix_chunk_floats(int64_t key, int64_t value) {
  return (5 * kMatrixChunk + 1) * padded(key) + 3 * kMatrixChunk * padded(value) + 2 * kMatrixChunk * kMatrixChunk;
}

// One head of the dplr form over all tokens of one sequence.
struct DplrHead {
  int64_t key, value, count;
  const float *r, *w, *k, *v, *a, *b;
  int64_t key_stride, value_stride;  // from token to token
  float* y;
  float* state;  // [value][state_stride], columns padded, zeros behind `key`
  int64_t state_stride;
  float* scratch;  // 6 * padded(key), 64-byte aligned
};

// Up to kChannelBlock channels of the selective form over all tokens of one sequence.
struct SelectiveBlock {
  int64_t channels, states, count;
  const float *x, *dt;
  float* y;
  int64_t stride;      // of x, dt and y
  const float* a;      // [channels][states]
  const float *b, *c;  // [count][states]
  float* state;        // [channels][states]
  float* scratch;      // 2 * kChannelBlock * states, 64-byte aligned
};

// Up to kConvBlock channels of conv1d over all tokens of one sequence. Does not move the state on.
struct ConvBlock {
  int64_t channels, taps, dilation, count;
  const float* x;
  float* y;
  int64_t stride;       // of x, y and the rows of the state
  const float* weight;  // [channels][taps]
  const float* bias;    // null: none
  const float* before;  // [(taps - 1) * dilation] rows
};

struct RecurrenceForm {
  void (*matrix_chunk)(const MatrixChunk& chunk);
  void (*dplr)(const DplrHead& head);
  void (*selective)(const SelectiveBlock& block);
  void (*conv1d)(const ConvBlock& block);
  // h <- a h + b over `count` rows of `width` channels, rows `stride` apart.
  void (*elementwise)(const float* a, const float* b, float* y, int64_t stride, int64_t count, int64_t width, float* h);
};

const RecurrenceForm& recurrence_form_avx2();
const RecurrenceForm& recurrence_form_avx512();

}  // namespace firstlight::kernels
