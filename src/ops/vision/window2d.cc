// SPDX-License-Identifier: Apache-2.0
#include "ops/vision/window2d.h"

namespace firstlight::ops {
namespace {

constexpr int64_t kMost = 1 << 20;

// One or two (four: padding) numbers in [least, kMost] as many as wanted.
Status read(OpKind op, const Attributes& attributes, std::string_view name, int64_t least, std::span<int64_t> into) {
  const std::vector<int64_t>& list = attributes.get_ints(name);
  bool fits = list.size() == 1 || list.size() == into.size();
  for (const int64_t value : list) fits = fits && value >= least && value <= kMost;
  FL_TRY(want_attribute(fits, op, name, attribute_to_string(list),
                        "1 or " + std::to_string(into.size()) + " numbers from " + std::to_string(least) + " on"));
  for (size_t i = 0; i < into.size(); ++i) into[i] = list[list.size() == 1 ? 0 : i];
  return ok_status();
}

}  // namespace

int64_t Window2d::places(int axis, int64_t size) const {
  const int64_t padded = size + pad[2 * axis] + pad[2 * axis + 1];
  const int64_t reach = dilation[axis] * (kernel[axis] - 1) + 1;
  return padded < reach ? 0 : (padded - reach) / stride[axis] + 1;
}

Result<Window2d> window2d(OpKind op, const Attributes& attributes, int64_t kernel_height, int64_t kernel_width) {
  Window2d window;
  window.kernel[0] = kernel_height;
  window.kernel[1] = kernel_width;
  FL_TRY(read(op, attributes, "stride", 1, window.stride));
  FL_TRY(read(op, attributes, "padding", 0, window.pad));
  if (attributes.has("dilation")) FL_TRY(read(op, attributes, "dilation", 1, window.dilation));
  return window;
}

Status want_image(OpKind op, const tensor::Type& x) {
  bool fits = is_plain_float(x) && rank(x) == 4;
  for (size_t i = 1; fits && i < 4; ++i) fits = x.shape[i].is_static() && x.shape[i].factor > 0;
  return want(fits, op, "x", x, "a plain float tensor [N, C, H, W] of constant C, H and W");
}

}  // namespace firstlight::ops
