// SPDX-License-Identifier: Apache-2.0
// What works on rows (the last axis), one block per row: norms, softmax, sums and maxima, the largest k. FL_LOAD_X reads
// an element of the rows by their type, FL_LOAD_W and FL_LOAD_B of weight and bias.
#include "dialect/rows.fl.h"

//@if FL_RMS_NORM
FL_KERNEL(rms_norm)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(const fl_u8) weight, FL_GLOBAL(float) out, fl_i32 n,
                    fl_i32 weighted, fl_f32 eps, fl_f32 offset) {
  FL_LOCAL(float, parts, [FL_THREADS]);
  const fl_i64 first = (fl_i64)fl_group_id(0) * n;
  float largest = 0.0f;
  FL_EACH(i, n) largest = fl_max(largest, fl_abs(FL_LOAD_X(x, first + i)));
  const float scale = fl_power_below(fl_block_most(parts, largest));
  const float inverse = 1.0f / scale;
  float squares = 0.0f;
  FL_EACH(i, n) {
    const float v = FL_LOAD_X(x, first + i) * inverse;
    squares += v * v;
  }
  const float mean = fl_block_sum(parts, squares) / (float)n;
  const float root = fl_sqrt(mean + eps * inverse * inverse);
  FL_EACH(i, n) {
    const float factor = weighted != 0 ? FL_LOAD_W(weight, i) + offset : 1.0f;
    out[first + i] = FL_LOAD_X(x, first + i) * inverse / root * factor;
  }
}
//@end

//@if FL_LAYER_NORM
FL_KERNEL(layer_norm)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(const fl_u8) weight, FL_GLOBAL(const fl_u8) bias,
                      FL_GLOBAL(float) out, fl_i32 n, fl_i32 weighted, fl_i32 biased, fl_f32 eps) {
  FL_LOCAL(float, parts, [FL_THREADS]);
  const fl_i64 first = (fl_i64)fl_group_id(0) * n;
  float sum = 0.0f;
  FL_EACH(i, n) sum += FL_LOAD_X(x, first + i);
  const float mean = fl_block_sum(parts, sum) / (float)n;
  float squares = 0.0f;
  FL_EACH(i, n) {
    const float v = FL_LOAD_X(x, first + i) - mean;
    squares += v * v;
  }
  const float root = fl_sqrt(fl_block_sum(parts, squares) / (float)n + eps);
  FL_EACH(i, n) {
    const float factor = weighted != 0 ? FL_LOAD_W(weight, i) : 1.0f;
    const float shift = biased != 0 ? FL_LOAD_B(bias, i) : 0.0f;
    out[first + i] = (FL_LOAD_X(x, first + i) - mean) / root * factor + shift;
  }
}
//@end

//@if FL_SOFTMAX
FL_KERNEL(softmax)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(float) out, fl_i32 n) {
  FL_LOCAL(float, parts, [FL_THREADS]);
  const fl_i64 first = (fl_i64)fl_group_id(0) * n;
  float most = -FL_INFINITY;
  FL_EACH(i, n) most = fl_max(most, FL_LOAD_X(x, first + i));
  most = fl_block_most(parts, most);
  float sum = 0.0f;
  FL_EACH(i, n) sum += fl_exp(FL_LOAD_X(x, first + i) - most);
  sum = fl_block_sum(parts, sum);
  FL_EACH(i, n) out[first + i] = fl_exp(FL_LOAD_X(x, first + i) - most) / sum;
}
//@end

//@if FL_REDUCE
// x as [outer, n, inner]; FL_OP is 0 sum, 1 maximum, 2 mean, 3 minimum. One block per result.
FL_KERNEL(reduce_rows)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(float) out, fl_i64 n, fl_i64 inner) {
  FL_LOCAL(float, parts, [FL_THREADS]);
  const fl_i64 result = fl_group_id(0);
  const fl_i64 first = result / inner * n * inner + result % inner;
#if FL_OP == 1
  float value = -FL_INFINITY;
  for (fl_i64 i = fl_local_id(0); i < n; i += FL_THREADS) value = fl_max(value, FL_LOAD_X(x, first + i * inner));
  value = fl_block_most(parts, value);
#elif FL_OP == 3
  float value = -FL_INFINITY;
  for (fl_i64 i = fl_local_id(0); i < n; i += FL_THREADS) value = fl_max(value, -FL_LOAD_X(x, first + i * inner));
  value = -fl_block_most(parts, value);
#else
  float value = 0.0f;
  for (fl_i64 i = fl_local_id(0); i < n; i += FL_THREADS) value += FL_LOAD_X(x, first + i * inner);
  value = fl_block_sum(parts, value);
#endif
#if FL_OP == 2
  value = value / (float)n;
#endif
  if (fl_local_id(0) == 0) out[result] = value;
}
//@end

//@if FL_TOP_K
// k times the first of those that stand behind the one before.
FL_KERNEL(top_k)(FL_GLOBAL(const float) x, FL_GLOBAL(float) values, FL_GLOBAL(fl_i32) indices, fl_i32 n, fl_i32 k) {
  FL_LOCAL(float, best_value, [FL_THREADS]);
  FL_LOCAL(fl_i32, best_index, [FL_THREADS]);
  const fl_i64 row = fl_group_id(0);
  FL_GLOBAL(const float) from = x + row * n;
  float last_value = 0.0f;
  fl_i32 last = -1;
  for (fl_i32 taken = 0; taken < k; ++taken) {
    float value = 0.0f;
    fl_i32 index = -1;
    FL_EACH(i, n) {
      const float v = from[i];
      if (last >= 0 && !fl_stands_before(last_value, last, v, i)) continue;
      if (index < 0 || fl_stands_before(v, i, value, index)) {
        value = v;
        index = i;
      }
    }
    best_value[fl_local_id(0)] = value;
    best_index[fl_local_id(0)] = index;
    FL_BARRIER();
    value = best_value[0];
    index = best_index[0];
    for (int t = 1; t < FL_THREADS; ++t) {
      if (best_index[t] < 0) continue;
      if (index < 0 || fl_stands_before(best_value[t], best_index[t], value, index)) {
        value = best_value[t];
        index = best_index[t];
      }
    }
    FL_BARRIER();
    last_value = value;
    last = index;
    if (fl_local_id(0) == 0) {
      values[row * k + taken] = value;
      indices[row * k + taken] = index;
    }
  }
}
//@end
