// SPDX-License-Identifier: Apache-2.0
// Attention over paged states, writing rows into pages. A state is a pool of bytes; row p of
// sequence s lies in the page that starts at pages[s, p / page_rows] of it, component and head further in
// (plan/batch.h). `sequences` holds 4 numbers each: first row of the batch, rows in the batch, rows before, 0;
// `row_sequence` the sequence of every row.
#include "dialect/values.fl.h"
//@printed

//@if FL_APPEND
// Of a log with a row per group of tokens `sequences` counts in groups.
FL_KERNEL(append)(FL_GLOBAL(const float) x, FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages,
                  FL_GLOBAL(const fl_i32) row_sequence, FL_GLOBAL(const fl_i32) sequences, fl_i64 total,
                  fl_i32 max_pages, fl_i32 page_rows, fl_i32 heads, fl_i32 width, fl_i64 offset, fl_i32 element_bytes) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 i = (fl_i32)(at % width);
  const fl_i32 h = (fl_i32)(at / width % heads);
  const fl_i64 t = at / width / heads;
  const fl_i32 s = row_sequence[t];
  const fl_i32 row = sequences[4 * s + 2] + (fl_i32)t - sequences[4 * s];
  FL_GLOBAL(fl_u8) page = pool + pages[(fl_i64)s * max_pages + row / page_rows] + offset;
  FL_GLOBAL(fl_u8) line = page + ((fl_i64)h * page_rows + row % page_rows) * width * element_bytes;
  FL_STORE(line, i, x[at]);
}
//@end

//@if FL_ATTEND
// One block per query row, head and part of the keys. 64 keys at a time: a thread has the score of one key, then some
// columns of the values. The running softmax keeps its maximum, its sum and FL_COLUMNS sums per thread. FL_SCORE and
// FL_MASK are the traced formulas. The keys are the visible rows of a state, or of those the ones that `select` names for
// the query (blocks of select_block rows, -1: none). With several parts or states attend_merge puts the results together.
#define FL_KEYS 64
FL_KERNEL(attend)(FL_GLOBAL(const float) q, FL_GLOBAL(const fl_u8) pool, FL_GLOBAL(const fl_i64) pages,
                  FL_GLOBAL(const fl_i32) row_sequence, FL_GLOBAL(const fl_i32) sequences,
                  FL_GLOBAL(const fl_i32) select, FL_GLOBAL(const fl_u8) sinks, FL_GLOBAL(float) out,
                  FL_GLOBAL(float) parts, fl_i32 max_pages, fl_i32 page_rows, fl_i32 heads, fl_i32 kv_heads,
                  fl_i32 key_width, fl_i32 value_stride, fl_i32 value_width, fl_i64 key_offset, fl_i64 value_offset,
                  fl_i32 key_bytes, fl_i32 value_bytes, fl_f32 scale, fl_i32 causal, fl_i32 window, fl_i32 chunk,
                  fl_i32 from_row, fl_i32 until_row, fl_i32 rate, fl_i32 select_groups, fl_i32 select_count, fl_i32 select_block, fl_i32 has_sinks,
                  fl_i32 first_part, fl_i32 all_parts, fl_i32 is_whole, FL_DYNAMIC_LOCAL_PARAM) {
  FL_DYNAMIC_LOCAL(float, query);  // key_width
  FL_LOCAL(float, p, [FL_KEYS]);
  FL_LOCAL(fl_i64, value_at, [FL_KEYS]);
  const fl_i32 h = fl_group_id(0);
  const fl_i32 t = fl_group_id(1);
  const fl_i32 own = fl_local_id(0);
  const fl_i32 s = row_sequence[t];
  const fl_i32 kv = h / (heads / kv_heads);
  const fl_i32 position = sequences[4 * s + 2] + t - sequences[4 * s];
  fl_i32 begin = window > 0 && position - window + 1 > 0 ? position - window + 1 : 0;
  fl_i32 end = (causal != 0 ? position + 1 : sequences[4 * s + 2] + sequences[4 * s + 1]) / rate;
  if (chunk > 0 && position / chunk * chunk > begin) begin = position / chunk * chunk;
  if (chunk > 0 && (position / chunk + 1) * chunk < end) end = (position / chunk + 1) * chunk;
  if (from_row > begin) begin = from_row;
  if (until_row > 0 && until_row < end) end = until_row;
  // Places to look at: rows from `begin` on, or numbers of the list.
  const fl_i64 list = ((fl_i64)t * select_groups + (select_groups == 1 ? 0 : kv)) * select_count;
  const fl_i32 places = select_count > 0 ? select_count * select_block : end > begin ? end - begin : 0;
  const fl_i32 count = fl_group_count(2);
  const fl_i32 share = ((places + count - 1) / count + FL_KEYS - 1) / FL_KEYS * FL_KEYS;
  const fl_i32 first_place = fl_group_id(2) * share;
  const fl_i32 last_place = first_place + share < places ? first_place + share : places;

  FL_GLOBAL(const float) from = q + ((fl_i64)t * heads + h) * key_width;
  for (fl_i32 i = own; i < key_width; i += FL_KEYS) query[i] = from[i];
  float sums[FL_COLUMNS];
  for (int i = 0; i < FL_COLUMNS; ++i) sums[i] = 0.0f;
  float most = -FL_INFINITY;
  float total = 0.0f;
  for (fl_i32 first = first_place; first < last_place; first += FL_KEYS) {
    fl_i32 j = first + own < last_place ? begin + first + own : -1;
    if (select_count > 0 && j >= 0) {
      const fl_i32 number = select[list + (first + own) / select_block];
      j = number < 0 ? -1 : number * select_block + (first + own) % select_block;
      if (j < begin || j >= end) j = -1;
    }
    float score = -FL_INFINITY;
    FL_BARRIER();
    value_at[own] = -1;
    if (j >= 0) {
      const fl_i64 page = pages[(fl_i64)s * max_pages + j / page_rows];
      const fl_i64 line = (fl_i64)kv * page_rows + j % page_rows;
      value_at[own] = page + value_offset + line * value_stride * value_bytes;
      FL_GLOBAL(const fl_u8) key = pool + page + key_offset + line * key_width * key_bytes;
      float dot = 0.0f;
      fl_i32 i = 0;
      for (; i + 16 <= key_width; i += 16) {
        float sum = 0.0f;
        for (int e = 0; e < 16; ++e) sum += query[i + e] * FL_LOAD_K(key, i + e);
        dot += sum;
      }
      for (; i < key_width; ++i) dot += query[i] * FL_LOAD_K(key, i);
      score = FL_SCORE(dot * scale, (float)position, (float)(j * rate), (float)h);
#ifdef FL_MASK
      if (FL_MASK((float)position, (float)(j * rate)) == 0.0f) {
        score = -FL_INFINITY;
        value_at[own] = -1;  // never multiplied, whatever lies there
      }
#endif
    }
    p[own] = score;
    FL_BARRIER();
    const float before = most;
    for (int i = 0; i < FL_KEYS; ++i) most = fl_max(most, p[i]);
    const float kept = before == -FL_INFINITY ? 0.0f : fl_exp(before - most);
    FL_BARRIER();
    p[own] = score == -FL_INFINITY ? 0.0f : fl_exp(score - most);
    FL_BARRIER();
    const fl_i32 keys = last_place - first < FL_KEYS ? last_place - first : FL_KEYS;
    float sum = 0.0f;
    for (int i = 0; i < keys; ++i) sum += p[i];
    total = total * kept + sum;
    for (int i = 0; i < FL_COLUMNS; ++i) {
      const fl_i32 column = own + FL_KEYS * i;
      float v = 0.0f;
      if (column < value_width) {
        for (int k = 0; k < keys; ++k) {
          if (value_at[k] >= 0) v += p[k] * FL_LOAD_V(pool + value_at[k], column);
        }
      }
      sums[i] = sums[i] * kept + v;
    }
  }
  const fl_i64 row = (fl_i64)t * heads + h;
  if (is_whole != 0) {
    float factor = 1.0f;
    const float sink = has_sinks != 0 ? FL_LOAD_S(sinks, h) : -FL_INFINITY;
    if (sink != -FL_INFINITY) {
      const float top = fl_max(most, sink);
      factor = most == -FL_INFINITY ? 0.0f : fl_exp(most - top);
      total = total * factor + fl_exp(sink - top);
    }
    for (int i = 0; i < FL_COLUMNS; ++i) {
      const fl_i32 column = own + FL_KEYS * i;
      if (column < value_width) out[row * value_width + column] = total == 0.0f ? 0.0f : sums[i] * factor / total;
    }
    return;
  }
  FL_GLOBAL(float) part = parts + (row * all_parts + first_part + fl_group_id(2)) * (value_width + 2);
  if (own == 0) {
    part[0] = most;
    part[1] = total;
  }
  for (int i = 0; i < FL_COLUMNS; ++i) {
    const fl_i32 column = own + FL_KEYS * i;
    if (column < value_width) part[2 + column] = sums[i];
  }
}

FL_KERNEL(attend_merge)(FL_GLOBAL(const float) parts, FL_GLOBAL(const fl_u8) sinks, FL_GLOBAL(float) out,
                        fl_i32 heads, fl_i32 value_width, fl_i32 all_parts, fl_i32 has_sinks) {
  const fl_i32 h = fl_group_id(0);
  const fl_i64 row = (fl_i64)fl_group_id(1) * heads + h;
  FL_GLOBAL(const float) first = parts + row * all_parts * (value_width + 2);
  const float sink = has_sinks != 0 ? FL_LOAD_S(sinks, h) : -FL_INFINITY;
  float top = sink;
  for (int i = 0; i < all_parts; ++i) top = fl_max(top, first[(fl_i64)i * (value_width + 2)]);
  float total = sink == -FL_INFINITY ? 0.0f : fl_exp(sink - top);
  for (int i = 0; i < all_parts; ++i) {
    FL_GLOBAL(const float) part = first + (fl_i64)i * (value_width + 2);
    if (part[0] != -FL_INFINITY) total += part[1] * fl_exp(part[0] - top);
  }
  for (fl_i32 column = fl_local_id(0); column < value_width; column += FL_KEYS) {
    float sum = 0.0f;
    for (int i = 0; i < all_parts; ++i) {
      FL_GLOBAL(const float) part = first + (fl_i64)i * (value_width + 2);
      if (part[0] != -FL_INFINITY) sum += part[2 + column] * fl_exp(part[0] - top);
    }
    out[row * value_width + column] = total == 0.0f ? 0.0f : sum / total;
  }
}
//@end
