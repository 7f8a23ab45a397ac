// SPDX-License-Identifier: Apache-2.0
// reduce: sum, maximum, minimum or mean over one axis.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const std::string& op = input.attributes.get_string("op");
  const int64_t wanted_axis = input.attributes.get_int("axis");
  FL_TRY(want(is_plain_float(x) && rank(x) >= 1, OpKind::kReduce, "x", x, "a plain float tensor of rank 1 or more"));
  FL_TRY(want_attribute(op == "sum" || op == "max" || op == "min" || op == "mean", OpKind::kReduce, "op",
                        "\"" + op + "\"", "\"sum\", \"max\", \"min\" or \"mean\""));
  const int axis = resolve_axis(wanted_axis, rank(x));
  FL_TRY(
      want_attribute(axis >= 0, OpKind::kReduce, "axis", std::to_string(wanted_axis), "an axis of " + x.to_string()));
  const tensor::Dim dim = x.shape[static_cast<size_t>(axis)];
  FL_TRY(want(op == "sum" || (dim.is_static() && dim.factor > 0), OpKind::kReduce, "x", x,
              "a constant axis with elements for " + op));
  tensor::Shape shape = x.shape;
  if (input.attributes.get_bool("keep")) {
    shape[static_cast<size_t>(axis)] = tensor::Dim(1);
  } else {
    shape.erase(shape.begin() + axis);
  }
  return Types{f32(std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput& input) {
  const int reduced = resolve_axis(input.attributes.get_int("axis"), rank(input.operands[0]));
  const bool keep = input.attributes.get_bool("keep");
  std::vector<ShardRule> rules;
  for (int i = 0; i < rank(input.operands[0]); ++i) {
    if (i != reduced) rules.push_back({"axis", {i}, {keep || i < reduced ? i : i - 1}, false});
  }
  if (input.attributes.get_string("op") == "sum") rules.push_back({"reduced", {reduced}, {-1}, true});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  Cost cost = elementwise_cost(input, results, values, 0);
  cost.operations = static_cast<double>(tensor::num_elements(input.operands[0].shape, values));
  return cost;
}

}  // namespace

OpDef reduce_def() {
  OpDef def;
  def.kind = OpKind::kReduce;
  def.name = "reduce";
  def.operands = {{"x"}};
  def.attributes = {
      {"op", AttributeType::kString, true, {}, "\"sum\", \"max\", \"min\" or \"mean\""},
      {"axis", AttributeType::kInt, false, int64_t{-1}, "negative: from the end"},
      {"keep", AttributeType::kBool, false, true, "whether the axis stays as 1"},
  };
  def.meaning = "Sum, maximum or minimum (NaN when there is one) or arithmetic mean along one axis, in float32.";
  def.rounding = "once, at the end; fast forms sum in float32";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "sum: dx = dy; mean: dx = dy / n; max and min: dx = dy where x is the one, split over ties";
  return def;
}

}  // namespace firstlight::ops
