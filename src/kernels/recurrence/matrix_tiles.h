// SPDX-License-Identifier: Apache-2.0
// gla and delta over a chunk of B tokens as matrix products, in the words of simd_*.h; included by form_<isa>.cc alone,
// behind vector_math.h and its own store_four_sums.
//
// With d_t = exp(decay_t), P_ts = d_{s+1} … d_t, S the state before the chunk and (* per row of S, . over the key):
//   A_ts = (k_t * P_ts) . k_s for s < t      u_t = beta_t (v_t - (k_t * P_t,-1)^T S - sum over s < t of A_ts u_s)
//   B_ts = (q_t * P_ts) . k_s for s <= t     y_t = (q_t * P_t,-1)^T S + sum over s <= t of B_ts u_s
//   S <- P_B,-1 * S + sum over s of (k_s * P_B,s) u_s^T
// gla has u = v; with a bonus its P for y ends one token earlier and B_tt = (q_t * bonus) . k_t. The products P are
// built by multiplying factors one after the other, never by dividing or subtracting logarithms, so that any factor
// from 0 to 1 is exact to rounding. Columns of S do not meet each other: all of a block of columns is done while it is
// in the first cache.
#pragma once

namespace firstlight::kernels {
namespace {

constexpr int kColumnVectors = kLanes == 16 ? 4 : 2;  // of a tile of four rows, in registers
constexpr int kTileRowCount = 4;
constexpr int64_t kFetchedTokens = 8;  // of the next chunk, twice per block of columns

// The parts of the scratch memory. `rows`: the 2 B rows (k * P)_t and (q * P)_t, for gla the B rows of q alone.
struct MatrixScratch {
  int64_t kp, vp;
  float *factors, *keys, *rows, *keys_to_end, *decay_of_all, *a, *b, *u, *sums;

  explicit MatrixScratch(const MatrixChunk& c) : kp(padded(c.key)), vp(padded(c.value)) {
    factors = c.scratch;
    keys = factors + kMatrixChunk * kp;
    rows = keys + kMatrixChunk * kp;
    keys_to_end = rows + 2 * kMatrixChunk * kp;
    decay_of_all = keys_to_end + kMatrixChunk * kp;
    a = decay_of_all + kp;
    b = a + kMatrixChunk * kMatrixChunk;
    u = b + kMatrixChunk * kMatrixChunk;
    sums = u + kMatrixChunk * vp;
  }
};

FL_INLINE void copy_padded(const float* from, int64_t count, int64_t width, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_f(to + i, load_f(from + i));
  for (; i < count; ++i) to[i] = from[i];
  for (; i < width; ++i) to[i] = 0.0f;
}

// out = a * b, all of a padded width; out may be one of them.
FL_INLINE void multiply_rows(const float* a, const float* b, int64_t width, float* out) {
  for (int64_t i = 0; i < width; i += kLanes) store_f(out + i, mul_f(load_f(a + i), load_f(b + i)));
}
FL_INLINE void scale_row(const float* a, float factor, int64_t width, float* out) {
  const Float f = set_f(factor);
  for (int64_t i = 0; i < width; i += kLanes) store_f(out + i, mul_f(load_f(a + i), f));
}
FL_INLINE float dot_rows(const float* a, const float* b, int64_t width) {
  Float sum = zero_f();
  for (int64_t i = 0; i < width; i += kLanes) sum = fma_f(load_f(a + i), load_f(b + i), sum);
  return sum_of(sum);
}

// exp of the chunk's logarithms: `factors` holds one number a token, or a padded row.
void chunk_factors(const MatrixChunk& c, const MatrixScratch& m) {
  if (c.decay_per_key) {
    for (int64_t t = 0; t < c.count; ++t) {
      float* row = m.factors + t * m.kp;
      copy_padded(c.decay + t * c.decay_stride, c.key, m.kp, row);
      for (int64_t i = 0; i < m.kp; i += kLanes) store_f(row + i, exp_f(load_f(row + i)));
    }
    return;
  }
  for (int64_t t = 0; t < kMatrixChunk; ++t) m.factors[t] = t < c.count ? c.decay[t * c.decay_stride] : 0.0f;
  for (int64_t t = 0; t < kMatrixChunk; t += kLanes) store_f(m.factors + t, exp_f(load_f(m.factors + t)));
}

// x . keys[s] for s < count, four at a time.
void dot_keys(const float* x, const float* keys, int64_t kp, int64_t count, float* out) {
  int64_t s = 0;
  for (; s + 4 <= count; s += 4) {
    Float sums[4] = {zero_f(), zero_f(), zero_f(), zero_f()};
    for (int64_t i = 0; i < kp; i += kLanes) {
      const Float v = load_f(x + i);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sums[j] = fma_f(v, load_f(keys + (s + j) * kp + i), sums[j]);
    }
    store_four_sums(sums, out + s);
  }
  for (; s < count; ++s) out[s] = dot_rows(x, keys + s * kp, kp);
}

// One factor per token: dots of x with the keys before t, then each times its product of factors. Leaves x * P_t,-1 in
// `x`. `first`: the token whose factor comes first on the way back, t, or t - 1 with a bonus.
void weigh_by_token(const MatrixScratch& m, int64_t t, int64_t first, float* x, float* line) {
  dot_keys(x, m.keys, m.kp, t, line);
  float product = 1.0f;
  for (int64_t s = t - 1; s >= 0; --s) {
    if (s + 1 <= first) product *= m.factors[s + 1];
    line[s] *= product;
  }
  if (first >= 0) product *= m.factors[0];
  scale_row(x, product, m.kp, x);
}

// The same with a factor per key channel: x itself is decayed on the way back.
void weigh_by_key(const MatrixScratch& m, int64_t t, int64_t first, float* x, float* line) {
  for (int64_t s = t - 1; s >= 0; --s) {
    const float* key = m.keys + s * m.kp;
    if (s + 1 > first) {
      line[s] = dot_rows(x, key, m.kp);
      continue;
    }
    const float* factor = m.factors + (s + 1) * m.kp;
    Float sum = zero_f();
    for (int64_t i = 0; i < m.kp; i += kLanes) {
      const Float decayed = mul_f(load_f(x + i), load_f(factor + i));
      store_f(x + i, decayed);
      sum = fma_f(decayed, load_f(key + i), sum);
    }
    line[s] = sum_of(sum);
  }
  if (first >= 0) multiply_rows(x, m.factors, m.kp, x);
}

void weigh(const MatrixChunk& c, const MatrixScratch& m, int64_t t, int64_t first, float* x, float* line) {
  if (c.decay_per_key) return weigh_by_key(m, t, first, x, line);
  weigh_by_token(m, t, first, x, line);
}

// A (negated) below the diagonal, B up to it, and the decayed rows.
void chunk_weights(const MatrixChunk& c, const MatrixScratch& m) {
  const bool delta = c.beta != nullptr;
  float* decayed_q = m.rows + (delta ? c.count * m.kp : 0);
  for (int64_t t = 0; t < c.count; ++t) {
    float* b = m.b + t * kMatrixChunk;
    float* q = decayed_q + t * m.kp;
    const float* key = m.keys + t * m.kp;
    copy_padded(c.q + t * c.qk_stride, c.key, m.kp, q);
    if (c.bonus == nullptr) {
      b[t] = dot_rows(q, key, m.kp);
    } else {
      b[t] = 0.0f;
      for (int64_t i = 0; i < c.key; ++i) b[t] += q[i] * c.bonus[i] * key[i];
    }
    weigh(c, m, t, c.bonus == nullptr ? t : t - 1, q, b);
    if (!delta) continue;
    float* a = m.a + t * kMatrixChunk;
    float* k = m.rows + t * m.kp;
    copy_padded(key, m.kp, m.kp, k);
    weigh(c, m, t, t, k, a);
    for (int64_t s = 0; s < t; ++s) a[s] = -a[s];
  }
}

// keys_to_end[s] = k_s * P_B,s and decay_of_all = P_B,-1, from the last token back.
void chunk_ends(const MatrixChunk& c, const MatrixScratch& m) {
  for (int64_t i = 0; i < m.kp; ++i) m.decay_of_all[i] = 1.0f;
  for (int64_t s = c.count - 1; s >= 0; --s) {
    multiply_rows(m.keys + s * m.kp, m.decay_of_all, m.kp, m.keys_to_end + s * m.kp);
    if (c.decay_per_key) {
      multiply_rows(m.decay_of_all, m.factors + s * m.kp, m.kp, m.decay_of_all);
    } else {
      scale_row(m.decay_of_all, m.factors[s], m.kp, m.decay_of_all);
    }
  }
}

template <int kRows, int kVectors>
struct Tile {
  Float sums[kRows][kVectors];

  // sums[r] += sum over l < count of x[r * row_step + l * step] * rows[l].
  FL_INLINE void add_product(const float* x, int64_t row_step, int64_t step, int64_t count, const float* rows,
                             int64_t stride) {
    for (int64_t l = 0; l < count; ++l) {
      Float line[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) line[v] = load_f(rows + l * stride + v * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Float p = set_f(x[r * row_step + l * step]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] = fma_f(p, line[v], sums[r][v]);
      }
    }
  }
  FL_INLINE void clear() {
    for (auto& row : sums) {
      for (Float& sum : row) sum = zero_f();
    }
  }
  FL_INLINE void load(const float* from, int64_t stride) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = load_f(from + r * stride + v * kLanes);
    }
  }
  FL_INLINE void store(float* to, int64_t stride) const {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) store_f(to + r * stride + v * kLanes, sums[r][v]);
    }
  }
};

// One block of kVectors vectors of columns, from column `first` on, through the whole chunk.
template <int kVectors>
struct Columns {
  const MatrixChunk& c;
  const MatrixScratch& m;
  int64_t first;

  // sums = rows . S
  template <int kRows>
  FL_INLINE void read_state(int64_t row) const {
    Tile<kRows, kVectors> tile;
    tile.clear();
    tile.add_product(m.rows + row * m.kp, m.kp, 1, c.key, c.state + first, c.state_stride);
    tile.store(m.sums + row * m.vp + first, m.vp);
  }

  // u_t of kRows tokens: v - (k * P)^T S, then what the tokens before left, then each other.
  template <int kRows>
  FL_INLINE void solve(int64_t t) const {
    Tile<kRows, kVectors> tile, seen;
    tile.load(m.u + t * m.vp + first, m.vp);
    seen.load(m.sums + t * m.vp + first, m.vp);
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) tile.sums[r][v] = sub_f(tile.sums[r][v], seen.sums[r][v]);
    }
    const float* a = m.a + t * kMatrixChunk;
    tile.add_product(a, kMatrixChunk, 1, t, m.u + first, m.vp);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int s = 0; s < r; ++s) {
        const Float p = set_f(a[r * kMatrixChunk + t + s]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) tile.sums[r][v] = fma_f(p, tile.sums[s][v], tile.sums[r][v]);
      }
      const Float beta = set_f(c.beta[(t + r) * c.beta_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) tile.sums[r][v] = mul_f(beta, tile.sums[r][v]);
    }
    tile.store(m.u + t * m.vp + first, m.vp);
  }

  // y of kRows tokens, over what read_state left of q.
  template <int kRows>
  FL_INLINE void answer(int64_t t) const {
    float* y = m.sums + ((c.beta != nullptr ? c.count : 0) + t) * m.vp + first;
    Tile<kRows, kVectors> tile;
    tile.load(y, m.vp);
    const float* b = m.b + t * kMatrixChunk;
    tile.add_product(b, kMatrixChunk, 1, t, m.u + first, m.vp);
#pragma GCC unroll 4
    for (int s = 0; s < kRows; ++s) {  // a later token of the tile is not even multiplied by 0: it may be no number
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Float line = load_f(m.u + (t + s) * m.vp + first + v * kLanes);
#pragma GCC unroll 4
        for (int r = s; r < kRows; ++r) {
          tile.sums[r][v] = fma_f(set_f(b[r * kMatrixChunk + t + s]), line, tile.sums[r][v]);
        }
      }
    }
    tile.store(y, m.vp);
  }

  template <int kRows>
  FL_INLINE void update_state(int64_t row) const {
    float* state = c.state + row * c.state_stride + first;
    Tile<kRows, kVectors> tile;
    tile.load(state, c.state_stride);
    for (int r = 0; r < kRows; ++r) {
      const Float factor = set_f(m.decay_of_all[row + r]);
      for (int v = 0; v < kVectors; ++v) tile.sums[r][v] = mul_f(factor, tile.sums[r][v]);
    }
    tile.add_product(m.keys_to_end + row, 1, m.kp, c.count, m.u + first, m.vp);
    tile.store(state, c.state_stride);
  }
};

// Calls part<kRows>(row) over `total` rows, four at a time. A macro, since a member template can not be handed over.
#define FL_FOR_ROWS(total, member)                                                                 \
  do {                                                                                             \
    const int64_t rows_ = (total);                                                                 \
    int64_t row_ = 0;                                                                              \
    for (; row_ + kTileRowCount <= rows_; row_ += kTileRowCount) columns.template member<4>(row_); \
    if (rows_ - row_ == 3) columns.template member<3>(row_);                                       \
    if (rows_ - row_ == 2) columns.template member<2>(row_);                                       \
    if (rows_ - row_ == 1) columns.template member<1>(row_);                                       \
  } while (false)

FL_INLINE void prefetch_row(const float* row, int64_t width) {
  for (int64_t i = 0; i < width; i += 16) __builtin_prefetch(row + i, 0, 2);
}

// Rows of the next chunk on their way while this one is computed: a head's rows lie far apart, which no hardware
// foresees. A part at a time, since only so many can be under way.
struct NextChunk {
  const MatrixChunk& c;
  int64_t token = 0;

  FL_INLINE void fetch(int64_t tokens) {
    for (int64_t end = token + tokens; token < end && token < c.next; ++token) {
      const int64_t t = c.count + token;
      prefetch_row(c.q + t * c.qk_stride, c.key);
      prefetch_row(c.k + t * c.qk_stride, c.key);
      prefetch_row(c.v + t * c.v_stride, c.value);
      if (c.decay_per_key) prefetch_row(c.decay + t * c.decay_stride, c.key);
      for (int64_t i = 0; i < c.value; i += 16) __builtin_prefetch(c.y + t * c.v_stride + i, 1, 2);
    }
  }
};

template <int kVectors>
void chunk_columns(const MatrixChunk& c, const MatrixScratch& m, int64_t first, NextChunk& next) {
  const Columns<kVectors> columns{c, m, first};
  const bool delta = c.beta != nullptr;
  FL_FOR_ROWS(delta ? 2 * c.count : c.count, read_state);
  next.fetch(kFetchedTokens);
  if (delta) FL_FOR_ROWS(c.count, solve);
  FL_FOR_ROWS(c.count, answer);
  next.fetch(kFetchedTokens);
  FL_FOR_ROWS(c.key, update_state);
}

#undef FL_FOR_ROWS

void matrix_chunk(const MatrixChunk& c) {
  const MatrixScratch m(c);
  for (int64_t t = 0; t < c.count; ++t) {
    copy_padded(c.k + t * c.qk_stride, c.key, m.kp, m.keys + t * m.kp);
    copy_padded(c.v + t * c.v_stride, c.value, m.vp, m.u + t * m.vp);
  }
  chunk_factors(c, m);
  chunk_weights(c, m);
  chunk_ends(c, m);
  NextChunk next{c};
  int64_t first = 0;
  for (; first + kColumnVectors * kLanes <= m.vp; first += kColumnVectors * kLanes) {
    chunk_columns<kColumnVectors>(c, m, first, next);
  }
  for (; first < m.vp; first += kLanes) chunk_columns<1>(c, m, first, next);
  const float* y = m.sums + (c.beta != nullptr ? c.count * m.vp : 0);
  for (int64_t t = 0; t < c.count; ++t) copy_padded(y + t * m.vp, c.value, c.value, c.y + t * c.v_stride);
}

}  // namespace
}  // namespace firstlight::kernels
