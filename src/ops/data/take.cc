// SPDX-License-Identifier: Apache-2.0
// take: chosen places of one axis, in any order and as often as wanted.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const std::vector<int64_t>& indices = input.attributes.get_ints("indices");
  FL_TRY(want(x.layout == tensor::Layout::kRowMajor && rank(x) >= 1, OpKind::kTake, "x", x,
              "a row-major tensor of rank 1 or more"));
  const int axis = resolve_axis(input.attributes.get_int("axis"), rank(x));
  FL_TRY(want_attribute(axis >= 0, OpKind::kTake, "axis", std::to_string(input.attributes.get_int("axis")),
                        "an axis of " + x.to_string()));
  const tensor::Dim dim = x.shape[static_cast<size_t>(axis)];
  FL_TRY(want(dim.is_static(), OpKind::kTake, "x", x, "a constant size of axis " + std::to_string(axis)));
  FL_TRY(want(axis + 1 < rank(x) || !is_block_format(x.dtype), OpKind::kTake, "x", x,
              "another axis than that of the blocks"));
  for (const int64_t index : indices) {
    FL_TRY(want_attribute(index >= 0 && index < dim.factor, OpKind::kTake, "indices", std::to_string(index),
                          "places in an axis of " + std::to_string(dim.factor)));
  }
  tensor::Shape shape = x.shape;
  shape[static_cast<size_t>(axis)] = tensor::Dim(static_cast<int64_t>(indices.size()));
  return Types{tensor::Type::tensor(x.dtype, std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  const int taken = resolve_axis(input.attributes.get_int("axis"), rank(input.operands[0]));
  for (int i = 0; i < rank(input.operands[0]); ++i) {
    if (i != taken) rules.push_back({"axis", {i}, {i}, false});
  }
  return rules;
}

Cost cost(const InferInput&, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const double bytes = type_bytes(results[0], values);
  return {0, bytes, bytes};
}

}  // namespace

OpDef take_def() {
  OpDef def;
  def.kind = OpKind::kTake;
  def.name = "take";
  def.operands = {{"x"}};
  def.attributes = {
      {"axis", AttributeType::kInt, true, {}, "negative: from the end"},
      {"indices", AttributeType::kInts, true, {}, "places of that axis; any order, repeats allowed"},
  };
  def.meaning =
      "y[.., i, ..] = x[.., indices[i], ..] on one axis: permutations, flips and repeats that are known in advance.";
  def.rounding = "none";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx[.., indices[i], ..] += dy[.., i, ..]";
  return def;
}

}  // namespace firstlight::ops
