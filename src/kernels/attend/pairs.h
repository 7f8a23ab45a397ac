// SPDX-License-Identifier: Apache-2.0
// Attention in pairs of bfloat16 (vdpbf16ps), for AVX-512 alone; included by form_avx512.cc behind tiles.h. Keys are
// turned so that a vector holds one pair of columns of 16 keys, values so that it holds one pair of keys of 16 columns:
// both products then are a broadcast pair of the query's against whole vectors, six queries at a time, and nothing is
// added up across lanes.
#pragma once

namespace firstlight::kernels {
namespace {

constexpr int kPairRows = kFewQueries;  // queries at once: 24 sums, 4 vectors of keys or values, 1 of the query's

FL_INLINE bool any_greater(Float a, Float b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }

FL_INLINE __m512i round_pair(Float low, Float high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

void pack_query(const float* q, float scale, int64_t width, uint32_t* pairs) {
  const Float factor = set_f(scale);
  for (int64_t i = 0; i < width; i += 32) {
    const int64_t left = width - i;
    const __mmask16 low = left >= 16 ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
    const __mmask16 high = left >= 32 ? 0xffff : left <= 16 ? 0 : static_cast<__mmask16>((1u << (left - 16)) - 1);
    const Float first = mul_f(_mm512_maskz_loadu_ps(low, q + i), factor);
    const Float second = mul_f(_mm512_maskz_loadu_ps(high, q + i + 16), factor);
    store_i(pairs + i / 2, round_pair(first, second));
  }
}

// 32 elements of a row from `first` on, as far as it goes.
struct Columns {
  Columns(int64_t from, int64_t width)
      : first(from), left(width - from), mask(left >= 32 ? 0xffffffffu : (1u << left) - 1) {}
  int64_t first, left;
  __mmask32 mask;
};

// Those elements of a stored row, rounded; zeros behind its end.
template <DType kType>
FL_INLINE __m512i load_pairs(const std::byte* row, const Columns& columns) {
  if constexpr (kType == DType::kBF16) {
    return _mm512_maskz_loadu_epi16(columns.mask, row + 2 * columns.first);
  } else {
    using Step = Steps<kType>;
    const std::byte* at = row + columns.first / Step::kElements * Step::kBytes;
    if (columns.left >= 32) {
      const Float low = load_stored<kType>(at, 0, 0);
      const Float high = Step::kBlocks ? load_stored<kType>(at, 1, 0) : load_stored<kType>(at + Step::kBytes, 0, 0);
      return round_pair(low, high);
    }
    float values[32] = {};
    decode_of<kType>(at, columns.left, values);
    return round_pair(load_f(values), load_f(values + 16));
  }
}

// Asks for the same elements of a later row.
template <DType kType>
FL_INLINE void ask(const std::byte* row, const Columns& columns) {
  using Step = Steps<kType>;
  const std::byte* at = row + columns.first / Step::kElements * Step::kBytes;
#pragma GCC unroll 2
  for (int64_t line = 0; line < 32 / Step::kElements * Step::kBytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T1);
  }
}

// The row at a place; where all places have one, the row ahead is asked for, else there may be none: zeros.
template <DType kType, bool kWhole>
FL_INLINE __m512i load_place(const PlacedRows& rows, int64_t place, const Columns& columns) {
  if constexpr (kWhole) {
    ask<kType>(rows.ahead[place], columns);
  } else {
    if (rows.rows[place] == nullptr) return zero_i();
  }
  return load_pairs<kType>(rows.rows[place], columns);
}

// Calls `visit` with the type of the rows, and whether they are whole, as constants.
template <typename Visit>
FL_INLINE void with_rows(const PlacedRows& rows, Visit&& visit) {
  with_type(rows.dtype, [&]<DType kType>() {
    if (rows.whole) {
      visit.template operator()<kType, true>();
    } else {
      visit.template operator()<kType, false>();
    }
  });
}

// sum + key times a pair of the query's. GCC would load the pair for several keys at once and have no registers for it.
FL_INLINE Float dot_word(Float sum, __m512i key, const uint32_t* pair) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(key), "m"(*pair));
  return sum;
}

// 16 vectors of 16 dwords, rows to columns.
FL_INLINE void turn(__m512i (&m)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(m[2 * i], m[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(m[2 * i], m[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    m[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    m[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    m[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    m[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(m[i], m[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(m[i], m[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(m[i + 8], m[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(m[i + 8], m[i + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    m[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    m[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

template <DType kType, bool kWhole>
void pack_keys_of(const PlacedRows& keys, uint32_t* pairs) {
  for (int64_t place = keys.begin; place < keys.end; place += 16) {
    for (int64_t first = 0; first < keys.width; first += 32) {
      const Columns columns(first, keys.width);
      __m512i m[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) m[i] = load_place<kType, kWhole>(keys, place + i, columns);
      turn(m);
      uint32_t* at = pairs + first / 2 * kKeyBlock + place;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) store_i(at + i * kKeyBlock, m[i]);
    }
  }
}

// Which halves of two rows make the pairs of their first 16 columns, and of the last 16.
struct Zip {
  __m512i low, high;
};
FL_INLINE Zip zip() {
  alignas(64) static constexpr uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow);
  return {low, _mm512_add_epi16(low, _mm512_set1_epi16(16))};
}

template <DType kType, bool kWhole>
bool pack_values_of(const PlacedRows& values, uint32_t* pairs) {
  const Zip places = zip();
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  const int64_t padded = (values.width + 15) / 16 * 16;
  __mmask32 odd = 0;
  for (int64_t place = values.begin; place < values.end; place += 2) {
    uint32_t* at = pairs + place / 2 * padded;
    for (int64_t first = 0; first < values.width; first += 32) {
      const Columns columns(first, values.width);
      const __m512i a = load_place<kType, kWhole>(values, place, columns);
      const __m512i b = load_place<kType, kWhole>(values, place + 1, columns);
      odd |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(a, exponent), exponent) |
             _mm512_cmpeq_epi16_mask(_mm512_and_si512(b, exponent), exponent);
      store_i(at + first, _mm512_permutex2var_epi16(a, places.low, b));
      if (first + 16 < padded) store_i(at + first + 16, _mm512_permutex2var_epi16(a, places.high, b));
    }
  }
  return odd == 0;
}

void pack_keys(const PlacedRows& keys, uint32_t* pairs) {
  with_rows(keys, [&]<DType kType, bool kWhole>() { pack_keys_of<kType, kWhole>(keys, pairs); });
}

bool pack_values(const PlacedRows& values, uint32_t* pairs) {
  bool finite = true;
  with_rows(values, [&]<DType kType, bool kWhole>() { finite = pack_values_of<kType, kWhole>(values, pairs); });
  return finite;
}

template <int kRows>
void pair_score_rows(const uint32_t* q, int64_t pairs, const uint32_t* keys, float* scores) {
  Float sums[kRows][4];
  for (auto& row : sums) {
    for (Float& sum : row) sum = zero_f();
  }
  for (int64_t k = 0; k < pairs; ++k, keys += kKeyBlock) {
    Int key[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) key[v] = load_i(keys + 16 * v);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const Int x = set_i(static_cast<int32_t>(q[i * pairs + k]));
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) sums[i][v] = dot_bf16(sums[i][v], key[v], x);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) store_f(scores + i * kKeyBlock + 16 * v, sums[i][v]);
  }
}

// Calls `visit` with the number of queries, at most kPairRows, as a constant, until all have had their turn.
template <typename Visit>
FL_INLINE void in_tiles(int num_queries, Visit&& visit) {
  int i = 0;
  for (; i + kPairRows <= num_queries; i += kPairRows) visit.template operator()<kPairRows>(i);
  switch (num_queries - i) {
    case 1:
      return visit.template operator()<1>(i);
    case 2:
      return visit.template operator()<2>(i);
    case 3:
      return visit.template operator()<3>(i);
    case 4:
      return visit.template operator()<4>(i);
    case 5:
      return visit.template operator()<5>(i);
    default:
      return;
  }
}

void pair_scores(const uint32_t* q, int num_queries, int64_t pairs, const uint32_t* keys, float* scores) {
  in_tiles(num_queries,
           [&]<int kRows>(int i) { pair_score_rows<kRows>(q + i * pairs, pairs, keys, scores + i * kKeyBlock); });
}

// 16 kGroups keys from `place` on. Each sum takes its pairs in the order of pair_score_rows.
template <DType kType, bool kWhole, int kRows, int kGroups>
FL_INLINE void score_row_tile(const uint32_t* q, const PlacedRows& keys, int64_t place, float* scores) {
  const int64_t pairs = row_pairs(keys.width);
  Float sums[kRows][kGroups];
  for (auto& row : sums) {
    for (Float& sum : row) sum = zero_f();
  }
  for (int64_t first = 0; first < keys.width; first += 32) {
    const Columns columns(first, keys.width);
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      __m512i m[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) m[i] = load_place<kType, kWhole>(keys, place + 16 * g + i, columns);
      turn(m);
#pragma GCC unroll 16
      for (int k = 0; k < 16; ++k) {
#pragma GCC unroll 6
        for (int i = 0; i < kRows; ++i) sums[i][g] = dot_word(sums[i][g], m[k], q + i * pairs + first / 2 + k);
      }
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) store_f(scores + i * kKeyBlock + place + 16 * g, sums[i][g]);
  }
}

void pair_score_few(const uint32_t* q, int num_queries, const PlacedRows& keys, float* scores) {
  with_rows(keys, [&]<DType kType, bool kWhole>() {
    in_tiles(num_queries, [&]<int kRows>(int i) {
      const uint32_t* own = q + i * row_pairs(keys.width);
      int64_t place = keys.begin;
      for (; place + 32 <= keys.end; place += 32) {
        score_row_tile<kType, kWhole, kRows, 2>(own, keys, place, scores + i * kKeyBlock);
      }
      if (place < keys.end) score_row_tile<kType, kWhole, kRows, 1>(own, keys, place, scores + i * kKeyBlock);
    });
  });
}

// e^x of x <= 0, within 2^-18 as weights that are rounded to bfloat16 need it: 2^(x log2 e), by a polynomial (fitted to
// the relative error) for what lies behind the point. 0 for -inf; NaN for NaN.
FL_INLINE Float rough_exp(Float x) {
  const Float t = mul_f(x, set_f(1.44269504088896341f));
  const Float f = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // t - floor(t); 0 of -inf
  Float p = set_f(1.352060320e-2f);
  p = fma_f(p, f, set_f(5.203742877e-2f));
  p = fma_f(p, f, set_f(2.414274933e-1f));
  p = fma_f(p, f, set_f(6.930066207e-1f));
  p = fma_f(p, f, set_f(1.0f));
  return scale_by_power(p, t);
}

// How far a top is raised above the scores, so that it seldom is: by powers of 2, which round as if it were not.
constexpr float kHeadroom = 8 * 0.693147181f;

void pair_step(const float* scores, int num_queries, float* tops, float* kept, float* totals, uint32_t* weights) {
  for (int i = 0; i < num_queries; ++i, scores += kKeyBlock, totals += kLanes, weights += kKeyBlock / 2) {
    Float x[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) x[v] = load_f(scores + kLanes * v);
    const Float highest = max_f(max_f(x[0], x[1]), max_f(x[2], x[3]));
    kept[i] = 1.0f;
    if (any_greater(highest, set_f(tops[i]))) {
      const float top = __builtin_ceilf(_mm512_reduce_max_ps(highest)) + kHeadroom;
      kept[i] = tops[i] == -__builtin_inff() ? 0.0f : _mm512_cvtss_f32(exp_f(set_f(tops[i] - top)));
      tops[i] = top;
      store_f(totals, mul_f(load_f(totals), set_f(kept[i])));
    }
    const Float base = max_f(set_f(tops[i]), set_f(-__FLT_MAX__));  // finite where nothing is seen yet
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) x[v] = rough_exp(sub_f(x[v], base));
    store_f(totals, add_f(load_f(totals), add_f(add_f(x[0], x[1]), add_f(x[2], x[3]))));
    store_i(weights, round_pair(x[0], x[1]));
    store_i(weights + kLanes, round_pair(x[2], x[3]));
  }
}

template <int kRows, int kVectors>
FL_INLINE void pair_sum_tile(const uint32_t* weights, const float* kept, int64_t width, const uint32_t* values,
                             int64_t count, float* out) {
  Float sums[kRows][kVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = mul_f(load_f(out + i * width + 16 * v), set_f(kept[i]));
  }
  for (int64_t p = 0; p < count; ++p, values += width) {
    Int value[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) value[v] = load_i(values + 16 * v);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const Int x = set_i(static_cast<int32_t>(weights[i * (kKeyBlock / 2) + p]));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = dot_bf16(sums[i][v], value[v], x);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store_f(out + i * width + 16 * v, sums[i][v]);
  }
}

void pair_accumulate(const uint32_t* weights, const float* kept, int num_queries, int64_t width, const uint32_t* values,
                     int64_t begin, int64_t end, float* sums) {
  weights += begin / 2;
  values += begin / 2 * width;
  const int64_t count = (end - begin) / 2;
  in_tiles(num_queries, [&]<int kRows>(int i) {
    const uint32_t* own = weights + i * (kKeyBlock / 2);
    int64_t first = 0;
    for (; first + 64 <= width; first += 64) {
      pair_sum_tile<kRows, 4>(own, kept + i, width, values + first, count, sums + i * width + first);
    }
    for (; first < width; first += 16) {
      pair_sum_tile<kRows, 1>(own, kept + i, width, values + first, count, sums + i * width + first);
    }
  });
}

// Columns first .. first + 32 kHalves - 1 of the values.
template <DType kType, bool kWhole, int kRows, int kHalves>
FL_INLINE void pair_row_tile(const uint32_t* weights, const float* kept, int64_t width, const PlacedRows& values,
                             int64_t first, float* out) {
  const Zip places = zip();
  Float sums[kRows][2 * kHalves];
  const int64_t vectors = (width - first) / 16;  // that there are
  const Columns columns[2] = {{first, values.width}, {first + 32 * (kHalves - 1), values.width}};
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < 2 * kHalves; ++v) {
      sums[i][v] = v < vectors ? mul_f(load_f(out + i * width + first + 16 * v), set_f(kept[i])) : zero_f();
    }
  }
  for (int64_t place = values.begin; place < values.end; place += 2) {
    Int value[2 * kHalves];
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      const __m512i a = load_place<kType, kWhole>(values, place, columns[h]);
      const __m512i b = load_place<kType, kWhole>(values, place + 1, columns[h]);
      value[2 * h] = _mm512_permutex2var_epi16(a, places.low, b);
      value[2 * h + 1] = _mm512_permutex2var_epi16(a, places.high, b);
    }
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const Int x = set_i(static_cast<int32_t>(weights[i * (kKeyBlock / 2) + place / 2]));
#pragma GCC unroll 4
      for (int v = 0; v < 2 * kHalves; ++v) sums[i][v] = dot_bf16(sums[i][v], value[v], x);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < 2 * kHalves; ++v) {
      if (v < vectors) store_f(out + i * width + first + 16 * v, sums[i][v]);
    }
  }
}

void pair_accumulate_rows(const uint32_t* weights, const float* kept, int num_queries, int64_t width,
                          const PlacedRows& values, float* sums) {
  with_rows(values, [&]<DType kType, bool kWhole>() {
    in_tiles(num_queries, [&]<int kRows>(int i) {
      const uint32_t* own = weights + i * (kKeyBlock / 2);
      int64_t first = 0;
      for (; first + 64 <= values.width; first += 64) {
        pair_row_tile<kType, kWhole, kRows, 2>(own, kept + i, width, values, first, sums + i * width);
      }
      for (; first < values.width; first += 32) {
        pair_row_tile<kType, kWhole, kRows, 1>(own, kept + i, width, values, first, sums + i * width);
      }
    });
  });
}

constexpr PairForm kPairForm = {.pack_query = pack_query,
                                .pack_keys = pack_keys,
                                .pack_values = pack_values,
                                .scores = pair_scores,
                                .score_rows = pair_score_few,
                                .step = pair_step,
                                .accumulate = pair_accumulate,
                                .accumulate_rows = pair_accumulate_rows};

}  // namespace
}  // namespace firstlight::kernels
