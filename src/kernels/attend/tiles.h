// SPDX-License-Identifier: Apache-2.0
// The inner loops of attend in the words of simd_*.h; included by form_<isa>.cc alone, behind vector_math.h and its own
// load_bf16, load_e4m3, set_f16 and store_four_sums.
#pragma once

#include "kernels/attend/stored.h"

namespace firstlight::kernels {
namespace {

constexpr int kSumVectors = kLanes == 16 ? 4 : 2;  // of a query's sums in registers at once

// 16 elements of kKeys keys, half `half` of their steps at `keys`, against kQueries queries.
template <DType kType, int kQueries, int kKeys>
FL_INLINE void score_half(const float* q, int64_t width, const std::byte* keys, int64_t stride, int half,
                          Float (&sums)[kQueries][kKeys]) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectorsPerHalf; ++v) {
    Float k[kKeys];
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) k[j] = load_stored<kType>(keys + j * stride, half, v);
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const Float x = load_f(q + i * width + v * kLanes);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sums[i][j] = fma_f(x, k[j], sums[i][j]);
    }
  }
}

// kKeys keys against kQueries queries.
template <DType kType, int kQueries, int kKeys>
FL_INLINE void score_tile(const float* q, int64_t width, const std::byte* keys, int64_t stride,
                          Float (&sums)[kQueries][kKeys]) {
  for (auto& row : sums) {
    for (Float& sum : row) sum = zero_f();
  }
  using Step = Steps<kType>;
  for (int64_t d = 0; d < width; d += Step::kElements, keys += Step::kBytes) {
    score_half<kType>(q + d, width, keys, stride, 0, sums);
    if (Step::kBlocks && d + 16 < width) score_half<kType>(q + d + 16, width, keys, stride, 1, sums);
  }
}

template <DType kType, int kQueries>
void score_rows(const float* q, int64_t width, const StoredRows& keys, float* scores) {
  int64_t j = 0;
  for (; j + 4 <= keys.count; j += 4) {
    Float sums[kQueries][4];
    score_tile<kType>(q, width, keys.data + j * keys.stride, keys.stride, sums);
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) store_four_sums(sums[i], scores + j + i * kKeyBlock);
  }
  for (; j < keys.count; ++j) {
    Float sums[kQueries][1];
    score_tile<kType>(q, width, keys.data + j * keys.stride, keys.stride, sums);
    for (int i = 0; i < kQueries; ++i) {
      const Float padded[4] = {sums[i][0], zero_f(), zero_f(), zero_f()};  // added up in the order of a tile's
      float four[4];
      store_four_sums(padded, four);
      scores[i * kKeyBlock + j] = four[0];
    }
  }
}

template <DType kType>
void scores_of(const float* q, int num_queries, int64_t width, const StoredRows& keys, float* scores) {
  int i = 0;
  for (; i + 4 <= num_queries; i += 4) score_rows<kType, 4>(q + i * width, width, keys, scores + i * kKeyBlock);
  q += i * width;
  scores += i * kKeyBlock;
  switch (num_queries - i) {
    case 1:
      return score_rows<kType, 1>(q, width, keys, scores);
    case 2:
      return score_rows<kType, 2>(q, width, keys, scores);
    case 3:
      return score_rows<kType, 3>(q, width, keys, scores);
    default:
      return;
  }
}

// Columns first .. of the values; `kHalf` says which half of their step `first` is.
template <DType kType, int kQueries, int kVectors, int kHalf>
FL_INLINE void sum_tile(const float* weights, int64_t width, const StoredRows& values, int64_t first, float* out) {
  using Step = Steps<kType>;
  constexpr int kStepVectors = static_cast<int>(Step::kElements) / kLanes;
  Float sums[kQueries][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = load_f(out + i * width + first + v * kLanes);
  }
  const std::byte* row = values.data + first / Step::kElements * Step::kBytes;
  for (int64_t j = 0; j < values.count; ++j, row += values.stride) {
    Float x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int place = v + kHalf * kVectorsPerHalf;
      const std::byte* at = row + place / kStepVectors * Step::kBytes;
      x[v] = load_stored<kType>(at, place % kStepVectors / kVectorsPerHalf, place % kVectorsPerHalf);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const Float p = set_f(weights[i * kKeyBlock + j]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = fma_f(p, x[v], sums[i][v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store_f(out + i * width + first + v * kLanes, sums[i][v]);
  }
}

template <DType kType, int kQueries, int kVectors>
FL_INLINE void sum_columns(const float* weights, int64_t width, const StoredRows& values, int64_t first, float* sums) {
  if (Steps<kType>::kBlocks && first % 32 != 0) {
    sum_tile<kType, kQueries, kVectors, 1>(weights, width, values, first, sums);
  } else {
    sum_tile<kType, kQueries, kVectors, 0>(weights, width, values, first, sums);
  }
}

template <DType kType, int kQueries>
void sum_rows(const float* weights, int64_t width, const StoredRows& values, float* sums) {
  int64_t first = 0;
  for (; first + kSumVectors * kLanes <= width; first += kSumVectors * kLanes) {
    sum_columns<kType, kQueries, kSumVectors>(weights, width, values, first, sums);
  }
  for (; first < width; first += 16) sum_columns<kType, kQueries, kVectorsPerHalf>(weights, width, values, first, sums);
}

template <DType kType>
void accumulate_of(const float* weights, int num_queries, int64_t width, const StoredRows& values, float* sums) {
  int i = 0;
  for (; i + 4 <= num_queries; i += 4) sum_rows<kType, 4>(weights + i * kKeyBlock, width, values, sums + i * width);
  weights += i * kKeyBlock;
  sums += i * width;
  switch (num_queries - i) {
    case 1:
      return sum_rows<kType, 1>(weights, width, values, sums);
    case 2:
      return sum_rows<kType, 2>(weights, width, values, sums);
    case 3:
      return sum_rows<kType, 3>(weights, width, values, sums);
    default:
      return;
  }
}

// Calls `visit` with the type as a constant.
template <typename Visit>
FL_INLINE void with_type(DType type, Visit&& visit) {
  switch (type) {
    case DType::kF16:
      return visit.template operator()<DType::kF16>();
    case DType::kBF16:
      return visit.template operator()<DType::kBF16>();
    case DType::kQ8_0:
      return visit.template operator()<DType::kQ8_0>();
    case DType::kMXFP8:
      return visit.template operator()<DType::kMXFP8>();
    case DType::kQ4_1:
      return visit.template operator()<DType::kQ4_1>();
    case DType::kQ4_1S:
      return visit.template operator()<DType::kQ4_1S>();
    default:
      return visit.template operator()<DType::kF32>();
  }
}

void scores(const float* q, int num_queries, int64_t width, const StoredRows& keys, float* out) {
  with_type(keys.dtype, [&]<DType kType>() { scores_of<kType>(q, num_queries, width, keys, out); });
}

void accumulate(const float* weights, int num_queries, int64_t width, const StoredRows& values, float* sums) {
  with_type(values.dtype, [&]<DType kType>() { accumulate_of<kType>(weights, num_queries, width, values, sums); });
}

// A top that is a whole number is raised once per unit that scores climb, not once per block: each time costs earlier
// weights a rounding.
float step(float* scores, int64_t count, float* top, float* kept) {
  Float tops = load_f(scores);
  for (int64_t j = kLanes; j < count; j += kLanes) tops = max_f(load_f(scores + j), tops);
  float lanes[kLanes];
  store_f(lanes, tops);
  float highest = *top;
  for (const float lane : lanes) highest = lane > highest ? lane : highest;
  const float new_top = highest > *top ? __builtin_ceilf(highest) : *top;
  // Nothing visible yet: zero is as good a reference as any, exp(-inf) is 0.
  const float base = new_top == -__builtin_inff() ? 0.0f : new_top;
  Float weights = zero_f();
  for (int64_t j = 0; j < count; j += kLanes) {
    const Float e = exp_f(sub_f(load_f(scores + j), set_f(base)));
    store_f(scores + j, e);
    weights = add_f(weights, e);
  }
  *kept = 1.0f;
  if (*top != new_top) {
    store_f(lanes, exp_f(set_f(*top - base)));
    *kept = lanes[0];
    *top = new_top;
  }
  return sum_of(weights);
}

// Sums over thousands of blocks would lose in float32 what the blocks have won.
void join(const float* near, double factor, double kept, double* far, int64_t width) {
  using Floats = float __attribute__((vector_size(32)));
  using Doubles = double __attribute__((vector_size(64)));
  for (int64_t i = 0; i < width; i += 8) {
    Floats block;
    Doubles sums;
    __builtin_memcpy(&block, near + i, sizeof(block));
    __builtin_memcpy(&sums, far + i, sizeof(sums));
    sums = sums * kept + __builtin_convertvector(block, Doubles) * factor;
    __builtin_memcpy(far + i, &sums, sizeof(sums));
  }
}

void decode(DType dtype, const std::byte* from, int64_t count, float* out) {
  with_type(dtype, [&]<DType kType>() { decode_of<kType>(from, count, out); });
}

AttendForm make_form(const VectorOps& ops, const PairForm* pairs) {
  return {.scores = scores,
          .accumulate = accumulate,
          .step = step,
          .join = join,
          .decode = decode,
          .vector_ops = &ops,
          .pairs = pairs};
}

}  // namespace
}  // namespace firstlight::kernels
