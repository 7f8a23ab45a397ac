// SPDX-License-Identifier: Apache-2.0
// conv2d: convolution of images; patch embeddings and the necks of vision encoders.
#include "ops/defs.h"
#include "ops/vision/window2d.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const tensor::Type& w = input.operands[1];
  FL_TRY(want_image(OpKind::kConv2d, x));
  const int64_t groups = input.attributes.get_int("groups");
  const int64_t channels = x.shape[1].factor;
  FL_TRY(want_attribute(groups >= 1 && channels % groups == 0, OpKind::kConv2d, "groups", std::to_string(groups),
                        "a divisor of " + std::to_string(channels) + " channels"));
  const bool fits = is_plain_float(w) && rank(w) == 4 && tensor::is_static(w.shape) &&
                    w.shape[1] == tensor::Dim(channels / groups) && w.shape[0].factor % groups == 0 &&
                    w.shape[2].factor >= 1 && w.shape[3].factor >= 1;
  FL_TRY(want(fits, OpKind::kConv2d, "weight", w,
              "a plain float tensor [O, " + std::to_string(channels / groups) + ", KH, KW], O a multiple of " +
                  std::to_string(groups)));
  if (const tensor::Type* bias = optional_operand(input, 2)) {
    FL_TRY(want(is_plain_float(*bias) && has_shape(*bias, {w.shape[0]}), OpKind::kConv2d, "bias", *bias,
                "a float vector of " + w.shape[0].to_string()));
  }
  const Window2d window = FL_TRY(window2d(OpKind::kConv2d, input.attributes, w.shape[2].factor, w.shape[3].factor));
  const int64_t height = window.places(0, x.shape[2].factor);
  const int64_t width = window.places(1, x.shape[3].factor);
  FL_TRY(want(height > 0 && width > 0, OpKind::kConv2d, "x", x, "an image that holds the window"));
  return Types{f32({x.shape[0], w.shape[0], height, width})};
}

std::vector<ShardRule> shard(const InferInput& input) {
  ShardRule images{"images", {0, -1}, {0}, false};
  ShardRule filters{"filters", {-1, 0}, {1}, false};
  if (input.operands.size() > 2) {
    images.operand_axes.push_back(-1);
    filters.operand_axes.push_back(0);
  }
  if (input.attributes.get_int("groups") != 1) return {images};
  return {images, filters};
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const auto taps = static_cast<double>(tensor::num_elements(input.operands[1].shape, values)) /
                    static_cast<double>(input.operands[1].shape[0].factor);
  return elementwise_cost(input, results, values, 2 * taps);
}

}  // namespace

OpDef conv2d_def() {
  OpDef def;
  def.kind = OpKind::kConv2d;
  def.name = "conv2d";
  def.operands = {{"x"}, {"weight"}, {"bias", OperandDef::Arity::kOptional}};
  def.attributes = {
      {"stride", AttributeType::kInts, false, std::vector<int64_t>{1}, "height and width, or one for both"},
      {"padding", AttributeType::kInts, false, std::vector<int64_t>{0}, "zeros: top, bottom, left, right, or one"},
      {"dilation", AttributeType::kInts, false, std::vector<int64_t>{1}, "height and width, or one for both"},
      {"groups", AttributeType::kInt, false, int64_t{1}, "blocks of channels that do not mix"},
  };
  def.meaning =
      "y[n, o, i, j] = bias[o] + sum over c, a, b of weight[o, c, a, b] x[n, c + group's first, i stride + a dilation "
      "- "
      "top, j stride + b dilation - left], x zero outside; x [N, C, H, W], weight [O, C / groups, KH, KW].";
  def.rounding = "sums in float64, rounded once";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dweight = correlation of x with dy; dx = transposed convolution of dy; dbias = sum of dy";
  return def;
}

}  // namespace firstlight::ops
