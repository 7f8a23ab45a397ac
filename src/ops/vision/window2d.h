// SPDX-License-Identifier: Apache-2.0
// Windows that slide over the last two axes of [N, C, H, W]: what conv2d and pool2d share.
#pragma once

#include "ops/infer.h"

namespace firstlight::ops {

struct Window2d {
  int64_t kernel[2] = {1, 1};  // height, width
  int64_t stride[2] = {1, 1};
  int64_t dilation[2] = {1, 1};
  int64_t pad[4] = {0, 0, 0, 0};  // top, bottom, left, right

  // Places of the window along an axis (0: height, 1: width) of `size`; 0 when it does not fit.
  int64_t places(int axis, int64_t size) const;
};

// From the attributes stride, dilation and padding (dilation where the operator has it). Errors name the attribute.
Result<Window2d> window2d(OpKind op, const Attributes& attributes, int64_t kernel_height, int64_t kernel_width);

// [N, C, H, W] with constant C, H and W.
Status want_image(OpKind op, const tensor::Type& x);

}  // namespace firstlight::ops
