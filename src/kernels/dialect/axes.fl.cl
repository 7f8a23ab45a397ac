// SPDX-License-Identifier: Apache-2.0
// What works along one axis, the operand seen as [outer, n, inner]: padding, running sums; and rows put at given places.
// FL_LOAD_X reads an element by its type.
#include "dialect/values.fl.h"

//@if FL_PAD
FL_KERNEL(pad)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(float) out, fl_i64 total, fl_i64 n, fl_i64 padded, fl_i64 before,
               fl_i64 inner, float value) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i64 place = at / inner;
  const fl_i64 i = place % padded - before;
  out[at] = i < 0 || i >= n ? value : FL_LOAD_X(x, (place / padded * n + i) * inner + at % inner);
}
//@end

//@if FL_CUMSUM
// A thread per line.
FL_KERNEL(cumsum)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(float) out, fl_i64 lines, fl_i64 n, fl_i64 inner,
                  fl_i32 exclusive, fl_i32 reverse) {
  const fl_i64 line = fl_global_id(0);
  if (line >= lines) return;
  const fl_i64 first = line / inner * n * inner + line % inner;
  fl_exact_sum sum = fl_exact_from(0.0f);
  for (fl_i64 i = 0; i < n; ++i) {
    const fl_i64 at = first + (reverse != 0 ? n - 1 - i : i) * inner;
    const float before = fl_exact_value(sum);
    sum = fl_exact_add(sum, FL_LOAD_X(x, at));
    out[at] = exclusive != 0 ? before : fl_exact_value(sum);
  }
}
//@end

//@if FL_SCATTER
// Into what lies in `out` already. A thread per column, so that equal indices keep their order.
FL_KERNEL(scatter_rows)(FL_GLOBAL(const fl_i32) ids, FL_GLOBAL(const float) rows, FL_GLOBAL(float) out, fl_i64 width,
                        fl_i64 count, fl_i64 num_rows, fl_i32 adds) {
  const fl_i64 column = fl_global_id(0);
  if (column >= width) return;
  for (fl_i64 r = 0; r < count; ++r) {
    const fl_i64 id = ids[r];
    if (id < 0 || id >= num_rows) continue;
    const float v = rows[r * width + column];
    out[id * width + column] = adds != 0 ? out[id * width + column] + v : v;
  }
}
//@end
