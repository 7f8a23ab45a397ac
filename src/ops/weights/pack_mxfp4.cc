// SPDX-License-Identifier: Apache-2.0
// pack_mxfp4: separate nibble and scale tensors of a checkpoint become the block format mxfp4.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& blocks = input.operands[0];
  const tensor::Type& scales = input.operands[1];
  const auto is_bytes = [](const tensor::Type& t) {
    return is_plain(t) && (t.dtype == tensor::DType::kU8 || t.dtype == tensor::DType::kF8E8M0);
  };
  FL_TRY(want(is_bytes(blocks) && blocks.dtype == tensor::DType::kU8 && rank(blocks) >= 2 &&
                  last_dim(blocks) == tensor::Dim(16) && tensor::is_static(blocks.shape),
              OpKind::kPackMxfp4, "blocks", blocks, "u8[.., K/32, 16]"));
  const tensor::Shape leading = leading_dims(blocks);
  FL_TRY(want(is_bytes(scales) && has_shape(scales, leading), OpKind::kPackMxfp4, "scales", scales,
              "u8" + tensor::shape_to_string(leading)));
  tensor::Shape shape = leading;
  shape.back().factor *= 32;
  return Types{tensor::Type::tensor(tensor::DType::kMXFP4, std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 0; i + 1 < rank(input.operands[0]); ++i) rules.push_back({"axis", {i, i}, {i}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 0);
}

}  // namespace

OpDef pack_mxfp4_def() {
  OpDef def;
  def.kind = OpKind::kPackMxfp4;
  def.name = "pack_mxfp4";
  def.operands = {{"blocks"}, {"scales"}};
  def.meaning =
      "Byte j of a block of 16 holds element 2j (low nibble) and 2j+1 (high nibble) of 32; the result stores each "
      "block "
      "as its scale and then bytes with element j (low) and j+16 (high), the file form of mxfp4.";
  def.rounding = "none: codes are moved";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none: a stored weight";
  return def;
}

}  // namespace firstlight::ops
