// SPDX-License-Identifier: Apache-2.0
// dequantize: a weight with one scale per rectangular block, as FP8 checkpoints store it.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& w = input.operands[0];
  const tensor::Type& scale = input.operands[1];
  const std::vector<int64_t>& block = input.attributes.get_ints("block");
  FL_TRY(want(is_plain(w) && rank(w) >= 2 && tensor::is_static(w.shape), OpKind::kDequantize, "w", w,
              "a plain tensor [.., R, K] of constant size"));
  FL_TRY(want_attribute(block.size() == 2 && block[0] > 0 && block[1] > 0, OpKind::kDequantize, "block",
                        attribute_to_string(block), "two sizes above 0"));
  tensor::Shape wanted = w.shape;
  for (size_t i = 0; i < 2; ++i) {
    tensor::Dim& dim = wanted[wanted.size() - 2 + i];
    dim.factor = (dim.factor + block[i] - 1) / block[i];
  }
  FL_TRY(want(is_plain_float(scale) && has_shape(scale, wanted), OpKind::kDequantize, "scale", scale,
              "a float tensor " + tensor::shape_to_string(wanted) + " (w is " + w.to_string() + ")"));
  return Types{f32(w.shape)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  // Rows and columns may be cut on block borders only; the splitting pass checks that.
  for (int i = 0; i < rank(input.operands[0]); ++i) rules.push_back({"axis", {i, i}, {i}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 1);
}

}  // namespace

OpDef dequantize_def() {
  OpDef def;
  def.kind = OpKind::kDequantize;
  def.name = "dequantize";
  def.operands = {{"w"}, {"scale"}};
  def.attributes = {{"block", AttributeType::kInts, true, {}, "rows and columns that share a scale"}};
  def.meaning =
      "y[.., r, k] = w[.., r, k] * scale[.., r / block[0], k / block[1]]; the last block of an axis may be partial.";
  def.rounding = "one float32 product";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none: a stored weight";
  return def;
}

}  // namespace firstlight::ops
