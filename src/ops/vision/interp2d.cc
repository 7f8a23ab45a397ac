// SPDX-License-Identifier: Apache-2.0
// interp2d: images at another size.
#include <algorithm>

#include "ops/defs.h"
#include "ops/vision/window2d.h"

namespace firstlight::ops {
namespace {

constexpr int64_t kMostPixels = 1 << 20;  // along an axis

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  FL_TRY(want_image(OpKind::kInterp2d, x));
  const std::vector<int64_t>& size = input.attributes.get_ints("size");
  FL_TRY(
      want_attribute(size.size() == 2 && std::min(size[0], size[1]) >= 1 && std::max(size[0], size[1]) <= kMostPixels,
                     OpKind::kInterp2d, "size", attribute_to_string(size), "height and width, 1 to 2^20"));
  const std::string& mode = input.attributes.get_string("mode");
  FL_TRY(want_attribute(mode == "nearest" || mode == "bilinear" || mode == "bicubic", OpKind::kInterp2d, "mode",
                        "\"" + mode + "\"", "\"nearest\", \"bilinear\" or \"bicubic\""));
  const bool corners = input.attributes.get_bool("align_corners");
  const bool antialias = input.attributes.get_bool("antialias");
  FL_TRY(want_attribute(mode != "nearest" || !(corners || antialias), OpKind::kInterp2d, "mode", "\"nearest\"",
                        "neither align_corners nor antialias with it"));
  FL_TRY(want_attribute(!(corners && antialias), OpKind::kInterp2d, "antialias", "true",
                        "false where align_corners is true"));
  return Types{f32({x.shape[0], x.shape[1], size[0], size[1]})};
}

std::vector<ShardRule> shard(const InferInput&) { return {{"images", {0}, {0}, false}, {"channels", {1}, {1}, false}}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const double taps = input.attributes.get_string("mode") == "bicubic" ? 16 : 4;
  return elementwise_cost(input, results, values, 2 * taps);
}

}  // namespace

OpDef interp2d_def() {
  OpDef def;
  def.kind = OpKind::kInterp2d;
  def.name = "interp2d";
  def.operands = {{"x"}};
  def.attributes = {
      {"size", AttributeType::kInts, true, {}, "height and width of the result"},
      {"mode", AttributeType::kString, true, {}, "\"nearest\", \"bilinear\" or \"bicubic\""},
      {"align_corners", AttributeType::kBool, false, false, "corner centres map onto each other, else corner edges"},
      {"antialias", AttributeType::kBool, false, false, "when shrinking, the filter widens with the scale"},
  };
  def.meaning =
      "x [N, C, H, W] sampled at [size]: element i lies at (i + 0.5) H / H' - 0.5 (align_corners: i (H - 1) / (H' - "
      "1)) "
      "and weighs its neighbours by the filter; at borders the border is repeated (antialias: the weights are "
      "renormalised). Cubic coefficient -0.75, with antialias -0.5, as torch.nn.functional.interpolate has them. "
      "Nearest "
      "takes floor(i H / H').";
  def.rounding = "weights and sums in float64, rounded once";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = the transposed weights times dy";
  return def;
}

}  // namespace firstlight::ops
