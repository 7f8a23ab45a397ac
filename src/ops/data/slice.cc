// SPDX-License-Identifier: Apache-2.0
// slice: a strided part of one axis.
#include <limits>

#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const Attributes& attributes = input.attributes;
  FL_TRY(want(x.layout == tensor::Layout::kRowMajor && rank(x) >= 1, OpKind::kSlice, "x", x,
              "a row-major tensor of rank 1 or more"));
  const int axis = resolve_axis(attributes.get_int("axis"), rank(x));
  FL_TRY(want_attribute(axis >= 0, OpKind::kSlice, "axis", std::to_string(attributes.get_int("axis")),
                        "an axis of " + x.to_string()));
  const tensor::Dim dim = x.shape[static_cast<size_t>(axis)];
  const SliceRange range = slice_range(attributes, dim.factor);
  const bool whole = range.start == 0 && attributes.get_int("stop") == kToTheEnd && range.step == 1;
  if (whole) return Types{x};
  FL_TRY(want(dim.is_static(), OpKind::kSlice, "x", x, "a constant size of axis " + std::to_string(axis)));
  const std::string size = std::to_string(dim.factor);
  FL_TRY(want_attribute(range.step >= 1, OpKind::kSlice, "step", std::to_string(range.step), "1 or more"));
  FL_TRY(want_attribute(range.start >= 0 && range.start <= dim.factor, OpKind::kSlice, "start",
                        std::to_string(attributes.get_int("start")), "a place in an axis of " + size));
  FL_TRY(want_attribute(range.stop >= range.start && range.stop <= dim.factor, OpKind::kSlice, "stop",
                        std::to_string(attributes.get_int("stop")), "a place between start and " + size));
  if (axis == rank(x) - 1 && is_block_format(x.dtype)) {
    const int64_t block = tensor::dtype_info(x.dtype).block_elements;
    const bool on_borders = range.step == 1 && range.start % block == 0 && range.stop % block == 0;
    FL_TRY(want_attribute(
        on_borders, OpKind::kSlice, "start, stop, step",
        std::to_string(range.start) + ", " + std::to_string(range.stop) + ", " + std::to_string(range.step),
        "step 1 and borders of blocks of " + std::to_string(block)));
  }
  tensor::Shape shape = x.shape;
  shape[static_cast<size_t>(axis)] = tensor::Dim((range.stop - range.start + range.step - 1) / range.step);
  return Types{tensor::Type::tensor(x.dtype, std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  const int cut = resolve_axis(input.attributes.get_int("axis"), rank(input.operands[0]));
  for (int i = 0; i < rank(input.operands[0]); ++i) {
    if (i != cut) rules.push_back({"axis", {i}, {i}, false});
  }
  return rules;
}

Cost cost(const InferInput&, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  const double bytes = type_bytes(results[0], values);
  return {0, bytes, bytes};
}

}  // namespace

SliceRange slice_range(const Attributes& attributes, int64_t size) {
  SliceRange range{attributes.get_int("start"), attributes.get_int("stop"), attributes.get_int("step")};
  if (range.start < 0) range.start += size;
  if (range.stop == kToTheEnd) {
    range.stop = size;
  } else if (range.stop < 0) {
    range.stop += size;
  }
  return range;
}

OpDef slice_def() {
  OpDef def;
  def.kind = OpKind::kSlice;
  def.name = "slice";
  def.operands = {{"x"}};
  def.attributes = {
      {"axis", AttributeType::kInt, true, {}, "negative: from the end"},
      {"start", AttributeType::kInt, false, int64_t{0}, "first index; negative: from the end"},
      {"stop", AttributeType::kInt, false, kToTheEnd, "index after the last; negative: from the end"},
      {"step", AttributeType::kInt, false, int64_t{1}, "distance of two taken indices, 1 or more"},
  };
  def.meaning = "y[.., i, ..] = x[.., start + i * step, ..] on one axis. Block formats are cut on block borders only.";
  def.rounding = "none";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx[.., start + i * step, ..] = dy[.., i, ..], zero elsewhere";
  return def;
}

}  // namespace firstlight::ops
