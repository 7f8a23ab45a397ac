// SPDX-License-Identifier: Apache-2.0
// Several rows of activations at once, with what AVX-512 has for it: the same bits as row_kernels.h gives row by row
// (bfloat16: but for values below the normal range, which become zeros). Included by form_avx512.cc alone, behind
// row_kernels.h.
#pragma once

namespace firstlight::kernels {
namespace {

// Lane n of 128 bits: the largest of vector n, in all its elements.
FL_INLINE Int largest_of_four(const Int* v) {
  Int pairs[2];
  for (int p = 0; p < 2; ++p) {
    const Int low = _mm512_shuffle_i32x4(v[2 * p], v[2 * p + 1], 0x44);
    pairs[p] = max_i(low, _mm512_shuffle_i32x4(v[2 * p], v[2 * p + 1], 0xee));
  }
  Int most = max_i(_mm512_shuffle_i32x4(pairs[0], pairs[1], 0x88), _mm512_shuffle_i32x4(pairs[0], pairs[1], 0xdd));
  most = max_i(most, _mm512_shuffle_epi32(most, _MM_PERM_BADC));
  return max_i(most, _mm512_shuffle_epi32(most, _MM_PERM_CDAB));
}

// Four vectors of whole numbers in int8 as the bytes of one.
FL_INLINE Int bytes_of_four(const Int* v) {
  const Int order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const Int bytes = _mm512_packs_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
  return _mm512_permutexvar_epi32(order, bytes);
}

// The sum of the 16 signed bytes of each lane of 128 bits, in all its elements.
FL_INLINE Int sums_of_lanes(Int bytes) {
  Int sum = _mm512_dpbusd_epi32(zero_i(), set_i(0x01010101), bytes);
  sum = add_i(sum, _mm512_shuffle_epi32(sum, _MM_PERM_BADC));
  return add_i(sum, _mm512_shuffle_epi32(sum, _MM_PERM_CDAB));
}

// A block of each of four rows: scales in lanes of 128 bits, codes two rows a vector, then the four Int8Block.
FL_INLINE void quantise_blocks(const float* x, int64_t stride, int8_t* codes, Int8Block* blocks) {
  const Int magnitude = set_i(0x7fffffff);
  Float values[8];
  Int largest[4];
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {
    values[2 * t] = load_f(x + t * stride);
    values[2 * t + 1] = load_f(x + t * stride + kLanes);
    largest[t] = max_i(and_i(bits_f(values[2 * t]), magnitude), and_i(bits_f(values[2 * t + 1]), magnitude));
  }
  const Float max = from_bits(largest_of_four(largest));
  const Mask vanishes = less_f(max, set_f(1e-36f));
  const Float scale = select_f(vanishes, zero_f(), div_f(max, set_f(127)));
  const Float inverse = select_f(vanishes, zero_f(), div_f(set_f(127), max));
  const Float factors[4] = {_mm512_shuffle_f32x4(inverse, inverse, 0x00), _mm512_shuffle_f32x4(inverse, inverse, 0x55),
                            _mm512_shuffle_f32x4(inverse, inverse, 0xaa), _mm512_shuffle_f32x4(inverse, inverse, 0xff)};
  Int whole[8];
#pragma GCC unroll 8
  for (int v = 0; v < 8; ++v) {
    whole[v] = int_of(max_f(min_f(mul_f(values[v], factors[v / 2]), set_f(127)), set_f(-127)));
  }
  const Int first = bytes_of_four(whole);
  const Int last = bytes_of_four(whole + 4);
  store_i(codes, first);
  store_i(codes + 64, last);
  const Int first_sums = sums_of_lanes(first);
  const Int last_sums = sums_of_lanes(last);
  const Int high = _mm512_shuffle_i32x4(first_sums, last_sums, 0xdd);
  const Int sum = add_i(_mm512_shuffle_i32x4(first_sums, last_sums, 0x88), high);
  Int out = bits_f(scale);
  out = _mm512_mask_mov_epi32(out, 0x2222, bits_f(mul_f(scale, float_of(sum))));
  out = _mm512_mask_sub_epi32(out, 0x4444, zero_i(), sum);
  store_i(blocks, _mm512_mask_sub_epi32(out, 0x8888, zero_i(), high));
}

void quantise_four(const float* rows, int64_t stride, int64_t padded, int64_t token, const Int8Rows& out) {
  static_assert(sizeof(Int8Block) == 16 && kLanes * 2 == kBlockColumns);
  for (int64_t b = 0; b < padded / kBlockColumns; ++b) {
    const int64_t at = b * out.num_tokens + token;
    quantise_blocks(rows + b * kBlockColumns, stride, out.codes + at * kBlockColumns, out.blocks + at);
  }
}

// 16 pairs of columns of four rows, [row] vectors of pairs, to [pair][row]: 16 bytes each, `stride` bytes apart.
FL_INLINE void store_four(const Int* v, std::byte* to, int64_t stride) {
  const Int a = _mm512_unpacklo_epi32(v[0], v[1]);
  const Int b = _mm512_unpackhi_epi32(v[0], v[1]);
  const Int c = _mm512_unpacklo_epi32(v[2], v[3]);
  const Int d = _mm512_unpackhi_epi32(v[2], v[3]);
  const Int parts[4] = {_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d),
                        _mm512_unpackhi_epi64(b, d)};
#pragma GCC unroll 4
  for (int p = 0; p < 4; ++p) {
    const auto put = [&](int64_t pair, __m128i lane) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + pair * stride), lane);
    };
    put(p, _mm512_castsi512_si128(parts[p]));
    put(4 + p, _mm512_extracti32x4_epi32(parts[p], 1));
    put(8 + p, _mm512_extracti32x4_epi32(parts[p], 2));
    put(12 + p, _mm512_extracti32x4_epi32(parts[p], 3));
  }
}

// The pairs of a row's kBlockColumns columns from `x` on.
FL_INLINE Int pairs_at(const float* x) {
  return reinterpret_cast<Int>(_mm512_cvtne2ps_pbh(load_f(x + kLanes), load_f(x)));
}

// 16 pairs of columns of two rows to [pair][row].
FL_INLINE void store_two(Int a, Int b, std::byte* to) {
  const Int low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  store_i(to, _mm512_permutex2var_epi32(a, low, b));
  store_i(to + 64, _mm512_permutex2var_epi32(a, add_i(low, set_i(8)), b));
}

// All widths round alike: what the plain text makes the least normal number is zero here, alone and among others.
void store_panel_bf16_lanes(const float* rows, int64_t stride, int64_t tokens, int64_t padded, std::byte* panel) {
  const int width = panel_width(tokens);
  for (int64_t start = 0; start < padded; start += kBlockColumns) {
    const float* x = rows + start;
    std::byte* to = panel + start / 2 * width * 4;
    if (width == 1) {
      store_i(to, pairs_at(x));
    } else if (width == 2) {
      store_two(pairs_at(x), pairs_at(x + stride), to);
    }
    for (int64_t t = 0; width >= 4 && t < width; t += 4) {
      Int pairs[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) pairs[i] = t + i < tokens ? pairs_at(x + (t + i) * stride) : zero_i();
      store_four(pairs, to + t * 4, int64_t{width} * 4);
    }
  }
}

}  // namespace
}  // namespace firstlight::kernels
