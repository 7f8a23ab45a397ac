// SPDX-License-Identifier: Apache-2.0
// The inner loops of attend in the words of simd_*.h; included by form_<isa>.cc alone, behind vector_math.h and its own
// load_bf16 and store_four_sums.
#pragma once

namespace firstlight::kernels {
namespace {

using tensor::DType;

constexpr int kSumVectors = kLanes == 16 ? 4 : 2;  // of a query's sums in registers at once

template <DType kType>
FL_INLINE Float load_stored(const std::byte* row, int64_t element) {
  if constexpr (kType == DType::kF16) {
    return load_f16(row + 2 * element);
  } else if constexpr (kType == DType::kBF16) {
    return load_bf16(row + 2 * element);
  } else {
    return load_f(reinterpret_cast<const float*>(row) + element);
  }
}

// Four keys against kQueries queries.
template <DType kType, int kQueries>
FL_INLINE void score_tile(const float* q, int64_t width, const std::byte* keys, int64_t stride, float* scores) {
  Float sums[kQueries][4];
  for (auto& row : sums) {
    for (Float& sum : row) sum = zero_f();
  }
  for (int64_t d = 0; d < width; d += kLanes) {
    Float k[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) k[j] = load_stored<kType>(keys + j * stride, d);
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const Float x = load_f(q + i * width + d);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sums[i][j] = fma_f(x, k[j], sums[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) store_four_sums(sums[i], scores + i * kKeyBlock);
}

template <DType kType, int kQueries>
void score_rows(const float* q, int64_t width, const StoredRows& keys, float* scores) {
  int64_t j = 0;
  for (; j + 4 <= keys.count; j += 4) {
    score_tile<kType, kQueries>(q, width, keys.data + j * keys.stride, keys.stride, scores + j);
  }
  for (; j < keys.count; ++j) {
    for (int i = 0; i < kQueries; ++i) {
      Float sum = zero_f();
      for (int64_t d = 0; d < width; d += kLanes) {
        sum = fma_f(load_f(q + i * width + d), load_stored<kType>(keys.data + j * keys.stride, d), sum);
      }
      const Float sums[4] = {sum, zero_f(), zero_f(), zero_f()};  // in the order of a tile's
      float four[4];
      store_four_sums(sums, four);
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

template <DType kType, int kQueries, int kVectors>
FL_INLINE void sum_tile(const float* weights, int64_t width, const StoredRows& values, int64_t first, float* out) {
  Float sums[kQueries][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = load_f(out + i * width + first + v * kLanes);
  }
  for (int64_t j = 0; j < values.count; ++j) {
    const std::byte* row = values.data + j * values.stride;
    Float x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) x[v] = load_stored<kType>(row, first + v * kLanes);
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

template <DType kType, int kQueries>
void sum_rows(const float* weights, int64_t width, const StoredRows& values, float* sums) {
  int64_t first = 0;
  for (; first + kSumVectors * kLanes <= width; first += kSumVectors * kLanes) {
    sum_tile<kType, kQueries, kSumVectors>(weights, width, values, first, sums);
  }
  for (; first < width; first += kLanes) sum_tile<kType, kQueries, 1>(weights, width, values, first, sums);
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

void scores(const float* q, int num_queries, int64_t width, const StoredRows& keys, float* out) {
  if (keys.dtype == DType::kF16) return scores_of<DType::kF16>(q, num_queries, width, keys, out);
  if (keys.dtype == DType::kBF16) return scores_of<DType::kBF16>(q, num_queries, width, keys, out);
  scores_of<DType::kF32>(q, num_queries, width, keys, out);
}

void accumulate(const float* weights, int num_queries, int64_t width, const StoredRows& values, float* sums) {
  if (values.dtype == DType::kF16) return accumulate_of<DType::kF16>(weights, num_queries, width, values, sums);
  if (values.dtype == DType::kBF16) return accumulate_of<DType::kBF16>(weights, num_queries, width, values, sums);
  accumulate_of<DType::kF32>(weights, num_queries, width, values, sums);
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
void fold(float* near, float kept, double* far, int64_t width) {
  using Floats = float __attribute__((vector_size(32)));
  using Doubles = double __attribute__((vector_size(64)));
  const Doubles factor = Doubles{} + static_cast<double>(kept);
  for (int64_t i = 0; i < width; i += 8) {
    Floats block;
    Doubles sums;
    __builtin_memcpy(&block, near + i, sizeof(block));
    __builtin_memcpy(&sums, far + i, sizeof(sums));
    sums = sums * factor + __builtin_convertvector(block, Doubles);
    __builtin_memcpy(far + i, &sums, sizeof(sums));
    __builtin_memset(near + i, 0, sizeof(block));
  }
}

template <DType kType>
void decode_of(const std::byte* from, int64_t count, float* out) {
  constexpr int64_t kSize = kType == DType::kF32 ? 4 : 2;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_f(out + i, load_stored<kType>(from, i));
  if (i == count) return;
  std::byte rest[kLanes * 4] = {};
  for (int64_t b = 0; b < (count - i) * kSize; ++b) rest[b] = from[i * kSize + b];
  float lanes[kLanes];
  store_f(lanes, load_stored<kType>(rest, 0));
  for (int64_t k = i; k < count; ++k) out[k] = lanes[k - i];
}

void decode(DType dtype, const std::byte* from, int64_t count, float* out) {
  if (dtype == DType::kF16) return decode_of<DType::kF16>(from, count, out);
  if (dtype == DType::kBF16) return decode_of<DType::kBF16>(from, count, out);
  decode_of<DType::kF32>(from, count, out);
}

AttendForm make_form(const VectorOps& ops) {
  return {.scores = scores, .accumulate = accumulate, .step = step, .fold = fold, .decode = decode, .vector_ops = &ops};
}

}  // namespace
}  // namespace firstlight::kernels
