// SPDX-License-Identifier: Apache-2.0
// What moves data, one thread per element, unit or 16 columns; and the gathering and scattering of rows for experts.
#include "dialect/values.fl.h"
#include "dialect/decode.fl.h"

//@if FL_GATHER_ROWS
// Rows of a table as float32, 16 columns a thread; an id outside gives zeros.
FL_KERNEL(gather_rows)(FL_GLOBAL(const fl_u8) table, FL_GLOBAL(const fl_i32) ids, FL_GLOBAL(float) out, fl_i64 total,
                       fl_i64 lines, fl_i64 line_bytes, fl_i32 columns, fl_i32 table_rows) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 chunks = (columns + 15) / 16;
  const fl_i32 c = (fl_i32)(at % chunks);
  const fl_i64 line = at / chunks;
  const fl_i32 id = ids[line / lines];
  const fl_i32 n = columns - 16 * c < 16 ? columns - 16 * c : 16;
  FL_GLOBAL(float) to = out + line * columns + 16 * c;
  if (id < 0 || id >= table_rows) {
    for (int j = 0; j < n; ++j) to[j] = 0.0f;
    return;
  }
  float w[16];
  FL_DECODE(table + ((fl_i64)id * lines + line % lines) * line_bytes, c, n, w);
  for (int j = 0; j < n; ++j) to[j] = w[j];
}
//@end

//@if FL_GATHER_UNITS
// Units of FL_UNIT: out[o, j] = from[o, index[o, j]] along an axis of `size` places of `inner` units (rows: o is 0);
// `period` numbers of the index, then it begins again.
FL_KERNEL(gather_units)(FL_GLOBAL(const FL_UNIT) from, FL_GLOBAL(const fl_i32) index, FL_GLOBAL(FL_UNIT) out,
                        fl_i64 total, fl_i64 per_outer, fl_i64 size, fl_i64 inner, fl_i64 period) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i64 place = at / inner;
  const fl_i64 id = index[place % period];
  const fl_i64 outer = place / per_outer;
  out[at] = id < 0 || id >= size ? (FL_UNIT)0 : from[(outer * size + id) * inner + at % inner];
}
//@end

//@if FL_COPY
// A box of units between two strided places; strides in units.
FL_KERNEL(strided_copy)(FL_GLOBAL(const FL_UNIT) from, FL_GLOBAL(FL_UNIT) to, fl_i64 total, fl_i64 from_first,
                        fl_i64 to_first, fl_i64 d1, fl_i64 d2, fl_i64 d3, fl_i64 d4, fl_i64 d5, fl_i64 f0, fl_i64 f1,
                        fl_i64 f2, fl_i64 f3, fl_i64 f4, fl_i64 f5, fl_i64 t0, fl_i64 t1, fl_i64 t2, fl_i64 t3,
                        fl_i64 t4, fl_i64 t5) {
  fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  fl_i64 a = from_first + at % d5 * f5;
  fl_i64 b = to_first + at % d5 * t5;
  at /= d5;
  a += at % d4 * f4;
  b += at % d4 * t4;
  at /= d4;
  a += at % d3 * f3;
  b += at % d3 * t3;
  at /= d3;
  a += at % d2 * f2;
  b += at % d2 * t2;
  at /= d2;
  a += at % d1 * f1;
  b += at % d1 * t1;
  at /= d1;
  to[b + at * t0] = from[a + at * f0];
}
//@end

//@if FL_CAST
FL_KERNEL(cast)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(fl_u8) out, fl_i64 total) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
#ifdef FL_CAST_INTEGERS
  fl_at(fl_i32, out, at) = (fl_i32)FL_CAST_INTEGERS;
#else
  FL_STORE(out, at, FL_LOAD_X(x, at));
#endif
}
//@end

//@if FL_INDEX_MASK
FL_KERNEL(index_mask)(FL_GLOBAL(const fl_i32) idx, FL_GLOBAL(float) out, fl_i64 total, fl_i32 size, fl_i32 k) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i64 row = at / size;
  const fl_i32 i = (fl_i32)(at % size);
  float found = 0.0f;
  for (int j = 0; j < k; ++j) {
    if (idx[row * k + j] == i) found = 1.0f;
  }
  out[at] = found;
}
//@end

//@if FL_EXPERTS
// Rows of tokens into a dense matrix, and back: out[token] += rows[r]. A group holds no token twice.
FL_KERNEL(expert_rows)(FL_GLOBAL(const float) x, FL_GLOBAL(const fl_i32) tokens, FL_GLOBAL(const float) weights,
                       FL_GLOBAL(float) rows, fl_i64 total, fl_i32 width, fl_i32 weighted) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i64 r = at / width;
  const float v = x[(fl_i64)tokens[r] * width + at % width];
  rows[at] = weighted != 0 ? v * weights[r] : v;
}
FL_KERNEL(expert_sums)(FL_GLOBAL(const float) rows, FL_GLOBAL(const fl_i32) tokens, FL_GLOBAL(const float) weights,
                       FL_GLOBAL(float) out, fl_i64 total, fl_i32 width, fl_i32 weighted) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i64 r = at / width;
  out[(fl_i64)tokens[r] * width + at % width] += weighted != 0 ? rows[at] * weights[r] : rows[at];
}
//@end
