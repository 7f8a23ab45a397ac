// SPDX-License-Identifier: Apache-2.0
// pool2d: largest or mean value of a window that slides over images.
#include "ops/defs.h"
#include "ops/vision/window2d.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  FL_TRY(want_image(OpKind::kPool2d, x));
  const std::string& op = input.attributes.get_string("op");
  FL_TRY(want_attribute(op == "max" || op == "mean", OpKind::kPool2d, "op", "\"" + op + "\"", "\"max\" or \"mean\""));
  const std::vector<int64_t>& kernel = input.attributes.get_ints("kernel");
  FL_TRY(want_attribute((kernel.size() == 1 || kernel.size() == 2) && kernel.front() >= 1 && kernel.back() >= 1,
                        OpKind::kPool2d, "kernel", attribute_to_string(kernel), "1 or 2 numbers from 1 on"));
  const Window2d window = FL_TRY(window2d(OpKind::kPool2d, input.attributes, kernel.front(), kernel.back()));
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t most = window.kernel[axis] / 2;
    FL_TRY(want_attribute(window.pad[2 * axis] <= most && window.pad[2 * axis + 1] <= most, OpKind::kPool2d, "padding",
                          attribute_to_string(input.attributes.get_ints("padding")), "at most half the window"));
  }
  const int64_t height = window.places(0, x.shape[2].factor);
  const int64_t width = window.places(1, x.shape[3].factor);
  FL_TRY(want(height > 0 && width > 0, OpKind::kPool2d, "x", x, "an image that holds the window"));
  return Types{f32({x.shape[0], x.shape[1], height, width})};
}

std::vector<ShardRule> shard(const InferInput&) { return {{"images", {0}, {0}, false}, {"channels", {1}, {1}, false}}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const std::vector<int64_t>& kernel = input.attributes.get_ints("kernel");
  return elementwise_cost(input, results, values, static_cast<double>(kernel.front() * kernel.back()));
}

}  // namespace

OpDef pool2d_def() {
  OpDef def;
  def.kind = OpKind::kPool2d;
  def.name = "pool2d";
  def.operands = {{"x"}};
  def.attributes = {
      {"op", AttributeType::kString, true, {}, "\"max\" or \"mean\""},
      {"kernel", AttributeType::kInts, true, {}, "height and width of the window, or one for both"},
      {"stride", AttributeType::kInts, true, {}, "height and width, or one for both"},
      {"padding", AttributeType::kInts, false, std::vector<int64_t>{0}, "top, bottom, left, right, or one"},
      {"count_padding", AttributeType::kBool, false, true, "whether a mean divides by the whole window at the border"},
  };
  def.meaning =
      "y[n, c, i, j] = the largest (NaN when there is one) or the mean of the window of x [N, C, H, W] at i stride - "
      "top, j stride - left. Padding is never the largest and counts as zeros in a mean.";
  def.rounding = "means in float64, rounded once";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "max: dx += dy where x is the largest; mean: dx += dy / count";
  return def;
}

}  // namespace firstlight::ops
