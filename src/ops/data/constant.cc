// SPDX-License-Identifier: Apache-2.0
// constant: numbers that stand in the graph itself: frequency tables, slopes, what folding leaves.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const std::vector<int64_t>& sizes = input.attributes.get_ints("shape");
  const auto count = static_cast<int64_t>(input.attributes.get_floats("values").size());
  tensor::Shape shape;
  int64_t wanted = 1;
  for (const int64_t size : sizes) {
    FL_TRY(want_attribute(size >= 0 && size <= count, OpKind::kConstant, "shape", attribute_to_string(sizes),
                          "sizes of 0 or more, as many elements as values"));
    wanted *= size;
    FL_TRY(want_attribute(wanted <= count, OpKind::kConstant, "shape", attribute_to_string(sizes),
                          std::to_string(count) + " elements"));
    shape.emplace_back(size);
  }
  FL_TRY(want_attribute(wanted == count && sizes.size() <= 6, OpKind::kConstant, "shape", attribute_to_string(sizes),
                        std::to_string(count) + " elements and at most 6 axes"));
  return Types{f32(std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput&) { return {}; }

Cost cost(const InferInput&, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return {0, 0, type_bytes(results[0], values)};
}

}  // namespace

OpDef constant_def() {
  OpDef def;
  def.kind = OpKind::kConstant;
  def.name = "constant";
  def.attributes = {
      {"values", AttributeType::kFloats, true, {}, "in row-major order"},
      {"shape", AttributeType::kInts, true, {}, "sizes, as many elements as values"},
  };
  def.meaning = "y has the values under the shape.";
  def.rounding = "once, to float32";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none";
  return def;
}

}  // namespace firstlight::ops
