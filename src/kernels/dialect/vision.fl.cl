// SPDX-License-Identifier: Apache-2.0
// Images [N, C, H, W]: windows that slide over them and images at another size, a thread per element of the result.
#include "dialect/values.fl.h"

//@if FL_CONV2D
FL_KERNEL(conv2d)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(const fl_u8) weight, FL_GLOBAL(const fl_u8) bias,
                  FL_GLOBAL(float) out, fl_i64 total, fl_i64 channels, fl_i64 height, fl_i64 width, fl_i64 filters,
                  fl_i64 rows, fl_i64 columns, fl_i64 groups, fl_i32 kernel_height, fl_i32 kernel_width,
                  fl_i32 stride_y, fl_i32 stride_x, fl_i32 dilation_y, fl_i32 dilation_x, fl_i32 top, fl_i32 left) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i64 j = at % columns;
  const fl_i64 i = at / columns % rows;
  const fl_i64 filter = at / columns / rows % filters;
  const fl_i64 image = at / columns / rows / filters;
  const fl_i64 per_group = channels / groups;
  const fl_i64 first = image * channels + filter / (filters / groups) * per_group;
  fl_exact_sum sum = fl_exact_from(0.0f);
  if (bias) sum = fl_exact_from(FL_LOAD_B(bias, filter));
  for (fl_i64 c = 0; c < per_group; ++c) {
    for (fl_i32 a = 0; a < kernel_height; ++a) {
      const fl_i64 y = i * stride_y + (fl_i64)a * dilation_y - top;
      if (y < 0 || y >= height) continue;
      for (fl_i32 b = 0; b < kernel_width; ++b) {
        const fl_i64 place = j * stride_x + (fl_i64)b * dilation_x - left;
        if (place < 0 || place >= width) continue;
        const float w = FL_LOAD_W(weight, ((filter * per_group + c) * kernel_height + a) * kernel_width + b);
        sum = fl_exact_add_product(sum, w, FL_LOAD_X(x, ((first + c) * height + y) * width + place));
      }
    }
  }
  out[at] = fl_exact_value(sum);
}
//@end

//@if FL_POOL2D
// The largest (FL_MAX is 1) or the mean of the window; padding counts in a mean where `counts_padding`.
FL_KERNEL(pool2d)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(float) out, fl_i64 total, fl_i64 height, fl_i64 width,
                  fl_i64 rows, fl_i64 columns, fl_i32 kernel_height, fl_i32 kernel_width, fl_i32 stride_y,
                  fl_i32 stride_x, fl_i32 top, fl_i32 left, fl_i32 counts_padding) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i64 j = at % columns;
  const fl_i64 i = at / columns % rows;
  const fl_i64 plane = at / columns / rows;
  float most = -FL_INFINITY;
  fl_exact_sum sum = fl_exact_from(0.0f);
  fl_i32 count = 0;
  for (fl_i32 a = 0; a < kernel_height; ++a) {
    for (fl_i32 b = 0; b < kernel_width; ++b) {
      const fl_i64 y = i * stride_y + a - top;
      const fl_i64 place = j * stride_x + b - left;
      if (y < 0 || y >= height || place < 0 || place >= width) continue;
      const float v = FL_LOAD_X(x, (plane * height + y) * width + place);
      most = fl_max(most, v);
      sum = fl_exact_add(sum, v);
      ++count;
    }
  }
  if (counts_padding != 0) count = kernel_height * kernel_width;
  out[at] = FL_MAX ? most : fl_exact_value(sum) / (float)(count > 0 ? count : 1);
}
//@end

//@if FL_INTERP2D
// Every row of the result weighs up to `row_taps` rows of x, every column `column_taps` columns; places below 0 are none.
FL_KERNEL(interp2d)(FL_GLOBAL(const fl_u8) x, FL_GLOBAL(const fl_i32) row_places, FL_GLOBAL(const float) row_weights,
                    FL_GLOBAL(const fl_i32) column_places, FL_GLOBAL(const float) column_weights, FL_GLOBAL(float) out,
                    fl_i64 total, fl_i64 height, fl_i64 width, fl_i64 rows, fl_i64 columns, fl_i32 row_taps,
                    fl_i32 column_taps) {
  const fl_i64 at = fl_global_id(0);
  if (at >= total) return;
  const fl_i64 j = at % columns * column_taps;
  const fl_i64 i = at / columns % rows * row_taps;
  const fl_i64 plane = at / columns / rows;
  fl_exact_sum sum = fl_exact_from(0.0f);
  for (fl_i32 a = 0; a < row_taps; ++a) {
    const fl_i32 row = row_places[i + a];
    if (row < 0) continue;
    const fl_i64 first = (plane * height + row) * width;
    fl_exact_sum line = fl_exact_from(0.0f);
    for (fl_i32 b = 0; b < column_taps; ++b) {
      const fl_i32 column = column_places[j + b];
      if (column >= 0) line = fl_exact_add_product(line, column_weights[j + b], FL_LOAD_X(x, first + column));
    }
    sum = fl_exact_add_product(sum, row_weights[i + a], fl_exact_value(line));
  }
  out[at] = fl_exact_value(sum);
}
//@end
