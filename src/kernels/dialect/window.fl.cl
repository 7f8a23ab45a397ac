// SPDX-License-Identifier: Apache-2.0
// window_emit: groups of tokens put together from the rows that wait in a fixed state and the batch's own; then the rows
// that later groups need are kept. `groups` holds 4 numbers per sequence: first group of the batch, groups in the batch,
// groups before, 0.
#include "dialect/values.fl.h"

#define FL_STATE(s) ((FL_GLOBAL(float))(pool + pages[(fl_i64)(s) * max_pages] + offset))

FL_KERNEL(window_emit)(FL_GLOBAL(const float) x, FL_GLOBAL(float) out, FL_GLOBAL(fl_i32) positions,
                       FL_GLOBAL(const fl_u8) pool, FL_GLOBAL(const fl_i64) pages, FL_GLOBAL(const fl_i32) sequences,
                       FL_GLOBAL(const fl_i32) group_sequence, FL_GLOBAL(const fl_i32) groups, fl_i64 total,
                       fl_i32 max_pages, fl_i64 offset, fl_i32 width, fl_i32 rate, fl_i32 rows, fl_f32 fill) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 c = (fl_i32)(at % width);
  const fl_i32 i = (fl_i32)(at / width % rows);
  const fl_i32 g = (fl_i32)(at / width / rows);
  const fl_i32 s = group_sequence[g];
  const fl_i32 group = groups[4 * s + 2] + g - groups[4 * s];
  const fl_i32 start = sequences[4 * s + 2];
  const fl_i32 position = (group + 1) * rate - rows + i;
  float v = fill;
  if (position >= start) {
    v = x[(fl_i64)(sequences[4 * s] + position - start) * width + c];
  } else if (position >= 0) {
    FL_GLOBAL(const float) kept = (FL_GLOBAL(const float))(pool + pages[(fl_i64)s * max_pages] + offset);
    v = kept[(fl_i64)(position % rows) * width + c];
  }
  out[at] = v;
  if (c == 0 && i == 0) positions[g] = group * rate;
}

// A thread per sequence and column.
FL_KERNEL(window_keep)(FL_GLOBAL(const float) x, FL_GLOBAL(fl_u8) pool, FL_GLOBAL(const fl_i64) pages,
                       FL_GLOBAL(const fl_i32) sequences, fl_i64 total, fl_i32 max_pages, fl_i64 offset, fl_i32 width,
                       fl_i32 rows) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i32 c = (fl_i32)(at % width);
  const fl_i32 s = (fl_i32)(at / width);
  const fl_i32 start = sequences[4 * s + 2];
  const fl_i32 end = start + sequences[4 * s + 1];
  FL_GLOBAL(float) kept = FL_STATE(s);
  for (fl_i32 p = start > end - rows ? start : end - rows; p < end; ++p) {
    kept[(fl_i64)(p % rows) * width + c] = x[(fl_i64)(sequences[4 * s] + p - start) * width + c];
  }
}
