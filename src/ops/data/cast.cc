// SPDX-License-Identifier: Apache-2.0
// cast: another element type for the same values; decodes block formats.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

using tensor::DType;

bool is_target(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kI32:
    case DType::kI64:
    case DType::kBool:
      return true;
    default:
      return false;
  }
}

Result<Types> infer(const InferInput& input) {
  const tensor::Type& x = input.operands[0];
  const std::string& text = input.attributes.get_string("to");
  const auto to = tensor::dtype_from_name(text);
  FL_TRY(want_attribute(to.has_value() && (is_target(*to) || *to == x.dtype), OpKind::kCast, "to", "\"" + text + "\"",
                        "one of f64, f32, f16, bf16, i32, i64, bool or the operand's own type"));
  FL_TRY(want(x.layout == tensor::Layout::kRowMajor, OpKind::kCast, "x", x, "a row-major tensor"));
  return Types{tensor::Type::tensor(*to, x.shape)};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 0; i < rank(input.operands[0]); ++i) rules.push_back({"axis", {i}, {i}, false});
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 1);
}

}  // namespace

OpDef cast_def() {
  OpDef def;
  def.kind = OpKind::kCast;
  def.name = "cast";
  def.operands = {{"x"}};
  def.attributes = {{"to", AttributeType::kString, true, {}, "name of the element type"}};
  def.meaning =
      "x's values, stored in the named type. From any type (block formats are decoded) to a float type, i32, i64 or "
      "bool. To an integer: towards zero, saturating, NaN to 0. To bool: 0 stays 0, all else is 1.";
  def.rounding = "once, to nearest even, into the target type; decoding goes through float32, where it is exact";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = cast(dy, type of x)";
  return def;
}

}  // namespace firstlight::ops
