// SPDX-License-Identifier: Apache-2.0
// Rotation by position: alone, and with what stands around it in front of an attend: norms of heads and the writing of
// keys and values into a state (attention.fl.cl says where rows lie).
#include "dialect/rows.fl.h"

// Angles as turns: position times frequency / 2 pi, the latter in three float32 parts, so that the fraction of a turn is
// good to better than 1e-7 at every position below 2^24. Products are split exactly.
FL_FUNCTION float fl_turn_part(float p, float f, float* rest) {
  const float whole = p * f;
  *rest += fl_fma(p, f, -whole);
  return whole - fl_rint(whole);
}

typedef struct {
  float c;
  float s;
} fl_rotation;

// Of pair i at position p. table: `pairs` triples, then the scale in a triple of its own.
FL_FUNCTION fl_rotation fl_rotation_of(FL_GLOBAL(const float) table, fl_i32 pairs, fl_i32 i, float p) {
  float turns = 0.0f;
  float rest = 0.0f;
  turns += fl_turn_part(p, table[3 * i], &rest);
  turns += fl_turn_part(p, table[3 * i + 1], &rest);
  turns += fl_turn_part(p, table[3 * i + 2], &rest);
  turns += rest;
  turns -= fl_rint(turns);
  const float angle = turns * 6.28318530717958647692f;
  const float scale = table[3 * pairs];
  fl_rotation rotation;
  rotation.c = fl_cos(angle) * scale;
  rotation.s = fl_sin(angle) * scale;
  return rotation;
}

// Element d of the rotated part: its pair, and how far off the other one of the pair is.
FL_FUNCTION fl_i32 fl_pair_of(fl_i32 d, fl_i32 pairs, fl_i32 interleaved) { return interleaved != 0 ? d / 2 : d % pairs; }
FL_FUNCTION fl_i32 fl_way_to_other(fl_i32 d, fl_i32 pairs, fl_i32 interleaved) {
  if (interleaved != 0) return (d & 1) != 0 ? -1 : 1;
  return d >= pairs ? -pairs : pairs;
}

//@if FL_ROPE
// which: the table of a sequence, or null. sign: -1 turns back.
FL_KERNEL(rope)(FL_GLOBAL(const float) x, FL_GLOBAL(const fl_i32) positions, FL_GLOBAL(float) out,
                FL_GLOBAL(const float) tables, FL_GLOBAL(const fl_i32) which, FL_GLOBAL(const fl_i32) row_sequence,
                fl_i64 total, fl_i32 heads, fl_i32 width, fl_i32 offset, fl_i32 length, fl_i32 interleaved,
                fl_f32 sign, fl_i32 per_sequence) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 d = (fl_i32)(at % width) - offset;
  if (d < 0 || d >= length) {
    out[at] = x[at];
    return;
  }
  const fl_i64 t = at / width / heads;
  const fl_i32 pairs = length / 2;
  FL_GLOBAL(const float) table = tables;
  if (per_sequence != 0) table = tables + (fl_i64)which[row_sequence[t]] * 3 * (pairs + 1);
  const fl_rotation turn = fl_rotation_of(table, pairs, fl_pair_of(d, pairs, interleaved), (float)positions[t]);
  const fl_i32 way = fl_way_to_other(d, pairs, interleaved);
  const float other = x[at + way] * turn.s * sign;
  out[at] = way < 0 ? x[at] * turn.c + other : x[at] * turn.c - other;
}
//@end

//@if FL_ROPE_APPEND
// A block per token and head: queries, then keys, then values, which are written as they are.
FL_KERNEL(rope_append)(FL_GLOBAL(const fl_i32) positions, FL_GLOBAL(const float) q, FL_GLOBAL(const float) k,
                       FL_GLOBAL(const float) v, FL_GLOBAL(const fl_u8) q_norm, FL_GLOBAL(const fl_u8) k_norm,
                       FL_GLOBAL(float) out, FL_GLOBAL(const float) tables, FL_GLOBAL(const fl_i32) which,
                       FL_GLOBAL(const fl_i32) row_sequence, FL_GLOBAL(const fl_i32) sequences,
                       FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages, fl_i32 queries, fl_i32 keys,
                       fl_i32 values, fl_i32 width, fl_i32 value_width, fl_i32 offset, fl_i32 length,
                       fl_i32 interleaved, fl_f32 sign, fl_i32 per_sequence, fl_f32 eps, fl_f32 norm_offset,
                       fl_i32 max_pages, fl_i32 page_rows, fl_i64 key_offset, fl_i64 value_offset, fl_i32 key_bytes,
                       fl_i32 value_bytes) {
  FL_LOCAL(float, parts, [FL_THREADS]);
  const fl_i32 h = fl_group_id(0);
  const fl_i64 t = fl_group_id(1);
  const fl_i32 s = row_sequence[t];
  const fl_i32 row = sequences[4 * s + 2] + (fl_i32)t - sequences[4 * s];
  FL_GLOBAL(fl_u8) page = pool + pages[(fl_i64)s * max_pages + row / page_rows];
  const int is_query = h < queries;
  const int is_value = h >= queries + keys;
  const fl_i32 head = is_query ? h : is_value ? h - queries - keys : h - queries;
  const fl_i32 n = is_value ? value_width : width;
  FL_GLOBAL(const float) from = q + (t * queries + head) * width;
  if (is_value) {
    from = v + (t * values + head) * value_width;
  } else if (!is_query) {
    from = k + (t * keys + head) * width;
  }
#ifdef FL_NORM
  float largest = 0.0f;
  FL_EACH(i, n) largest = fl_max(largest, fl_abs(from[i]));
  const float inverse = 1.0f / fl_power_below(fl_block_most(parts, largest));
  float squares = 0.0f;
  FL_EACH(i, n) squares += from[i] * inverse * (from[i] * inverse);
  const float root = fl_sqrt(fl_block_sum(parts, squares) / (float)n + eps * inverse * inverse);
#ifdef FL_WEIGHTED
#define FL_FACTOR(i) ((is_query ? FL_LOAD_Q(q_norm, i) : FL_LOAD_K(k_norm, i)) + norm_offset)
#else
#define FL_FACTOR(i) 1.0f
#endif
#define FL_HEAD(i) (is_value ? from[i] : from[i] * inverse / root * FL_FACTOR(i))
#else
#define FL_HEAD(i) from[i]
#endif
  const fl_i32 pairs = length / 2;
  FL_GLOBAL(const float) table = tables;
  if (per_sequence != 0) table = tables + (fl_i64)which[s] * 3 * (pairs + 1);
  const float p = (float)positions[t];
  FL_GLOBAL(fl_u8) key_line = page + key_offset + ((fl_i64)head * page_rows + row % page_rows) * width * key_bytes;
  FL_GLOBAL(fl_u8) value_line =
      page + value_offset + ((fl_i64)head * page_rows + row % page_rows) * value_width * value_bytes;
  FL_EACH(i, n) {
    float x = FL_HEAD(i);
    const fl_i32 d = i - offset;
    if (!is_value && d >= 0 && d < length) {
      const fl_rotation turn = fl_rotation_of(table, pairs, fl_pair_of(d, pairs, interleaved), p);
      const fl_i32 way = fl_way_to_other(d, pairs, interleaved);
      const float other = FL_HEAD(i + way) * turn.s * sign;
      x = way < 0 ? x * turn.c + other : x * turn.c - other;
    }
    if (is_query) {
      out[(t * queries + head) * width + i] = x;
    } else if (is_value) {
      FL_STORE_V(value_line, i, x);
    } else {
      FL_STORE_K(key_line, i, x);
    }
  }
}
//@end
