// SPDX-License-Identifier: Apache-2.0
// fake_quant: values rounded to what a low-precision format can hold, scale included, and back in float32. Activations
// as vendors' kernels round them (W8A8, W4A8, NVFP4), cache rows whose rounding is part of a model.
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> values) {
  for (const std::string_view value : values) {
    if (text == value) return true;
  }
  return false;
}

Result<Types> infer(const InferInput& input) {
  constexpr OpKind kKind = OpKind::kFakeQuant;
  const tensor::Type& x = input.operands[0];
  const Attributes& attributes = input.attributes;
  FL_TRY(want(is_f32(x) && rank(x) >= 1 && last_dim(x).is_static(), kKind, "x", x, "f32[.., K] with a constant K"));
  const std::string& format = attributes.get_string("format");
  FL_TRY(want_attribute(is_one_of(format, {"e4m3", "e5m2", "e2m1", "int8", "int4"}), kKind, "format", format,
                        "e4m3, e5m2, e2m1, int8 or int4"));
  const std::string& scale_format = attributes.get_string("scale_format");
  FL_TRY(want_attribute(is_one_of(scale_format, {"f32", "ue8m0", "e4m3"}), kKind, "scale_format", scale_format,
                        "f32, ue8m0 or e4m3"));
  const int64_t block = attributes.get_int("block");
  FL_TRY(want_attribute(block >= 0, kKind, "block", std::to_string(block), "columns, or 0 for the whole row"));
  const double least = attributes.get_float("least");
  FL_TRY(want_attribute(least >= 0, kKind, "least", std::to_string(least), "0 or more"));
  const double scale = attributes.get_float("scale");
  const tensor::Type* stored = optional_operand(input, 1);
  FL_TRY(want_attribute(scale >= 0 && (stored == nullptr || scale == 0), kKind, "scale", std::to_string(scale),
                        "above 0, or 0 where the scale is an operand or computed"));
  if (stored != nullptr) {
    const bool single =
        is_plain_float(*stored) && tensor::is_static(stored->shape) && tensor::num_elements(stored->shape, {}) == 1;
    FL_TRY(want(single, kKind, "scale", *stored, "one float"));
  }
  return Types{x};
}

std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  for (int i = 0; i + 1 < rank(input.operands[0]); ++i) {
    ShardRule rule{"axis", {i}, {i}, false};
    if (input.operands.size() > 1) rule.operand_axes.push_back(-1);
    rules.push_back(std::move(rule));
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 4);
}

}  // namespace

OpDef fake_quant_def() {
  OpDef def;
  def.kind = OpKind::kFakeQuant;
  def.name = "fake_quant";
  def.operands = {{"x"}, {"scale", OperandDef::Arity::kOptional}};
  def.attributes = {
      {"format", AttributeType::kString, true, {}, "e4m3 (up to 448), e5m2 (57344), e2m1 (6), int8 (127), int4 (7)"},
      {"block", AttributeType::kInt, false, int64_t{0}, "columns that share a computed scale; 0: the whole row"},
      {"scale_format", AttributeType::kString, false, std::string("f32"), "what a computed scale is rounded to"},
      {"scale", AttributeType::kFloat, false, 0.0, "the scale, where it is a constant; with e4m3 scales: see meaning"},
      {"least", AttributeType::kFloat, false, 0.0, "the largest magnitude of a block counts as at least this"}};
  def.meaning =
      "y = s * round(x / s), rounded to the nearest value of the format, ties to even, beyond its largest value to "
      "that "
      "(integers: to -128 or -8 below). s: the given scale; else per block (the last one of a row may be partial) m / "
      "largest with m = max |x|, rounded up to a power of two for ue8m0. For e4m3 scales s = g * round_e4m3(m / "
      "largest "
      "/ g) with g the given scale, or 1. Where s is 0, y is 0. A NaN or infinity in a block makes its y NaN where s "
      "is "
      "computed; a NaN stays one where s is given.";
  def.rounding =
      "float32: the quotient m / largest (/ g), x / s, and the product; the products of codes are not part of it";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "dx = dy (straight through)";
  return def;
}

}  // namespace firstlight::ops
