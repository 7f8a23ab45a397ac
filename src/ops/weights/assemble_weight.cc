// SPDX-License-Identifier: Apache-2.0
// assemble_weight: the parts in which a vendor stores a quantised weight (codes, scales, zeros, a global scale, an
// order of columns) become one weight matrix: in a block format, whose decoded values are the vendor's, or as float32.
#include "ops/weights/assemble_weight.h"
#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

using tensor::DType;

constexpr OpKind kKind = OpKind::kAssembleWeight;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The sizes that are not 1: [R, 1] and [R] say the same.
std::vector<int64_t> sizes_above_one(const tensor::Shape& shape) {
  std::vector<int64_t> sizes;
  for (const tensor::Dim& dim : shape) {
    if (dim.factor != 1) sizes.push_back(dim.factor);
  }
  return sizes;
}

Status want_sizes(const tensor::Type& type, std::string_view operand, const tensor::Shape& leading,
                  std::initializer_list<int64_t> last) {
  tensor::Shape wanted = leading;
  for (const int64_t size : last) wanted.emplace_back(size);
  return want(tensor::is_static(type.shape) && sizes_above_one(type.shape) == sizes_above_one(wanted), kKind, operand,
              type, tensor::shape_to_string(wanted) + " (sizes of 1 aside)");
}

Status check_codes(const tensor::Type& codes, const Attributes& attributes) {
  const std::string& kind = attributes.get_string("codes");
  const auto is = [&](std::initializer_list<DType> types) {
    for (const DType type : types) {
      if (codes.dtype == type) return true;
    }
    return false;
  };
  const int64_t bits = attributes.get_int("bits");
  FL_TRY(want(codes.layout == tensor::Layout::kRowMajor && rank(codes) >= 2 && tensor::is_static(codes.shape), kKind,
              "codes", codes, "a row-major tensor of constant size with two axes or more"));
  const bool in_words = kind == "packed" || kind == "gptq" || kind == "awq";
  FL_TRY(want_attribute(in_words ? bits == 2 || bits == 4 || bits == 8 : bits == (kind == "e2m1" ? 4 : 8), kKind,
                        "bits", std::to_string(bits),
                        in_words         ? "2, 4 or 8"
                        : kind == "e2m1" ? "4"
                                         : "8"));
  if (kind == "e4m3") return want(is({DType::kF8E4M3}), kKind, "codes", codes, "f8e4m3");
  if (kind == "e5m2") return want(is({DType::kF8E5M2}), kKind, "codes", codes, "f8e5m2");
  if (kind == "i8") return want(is({DType::kI8}), kKind, "codes", codes, "i8");
  if (kind == "e2m1") return want(is({DType::kU8, DType::kI8}), kKind, "codes", codes, "u8 or i8, two codes a byte");
  if (in_words) return want(is({DType::kI32, DType::kU32}), kKind, "codes", codes, "i32");
  return want_attribute(false, kKind, "codes", kind, "e4m3, e5m2, i8, e2m1, packed, gptq or awq");
}

Status check_columns(const AssembledShape& shape, const tensor::Type& codes, const Attributes& attributes) {
  const std::string& kind = attributes.get_string("codes");
  const int64_t words = kind == "gptq" ? codes.shape[codes.shape.size() - 2].factor : last_dim(codes).factor;
  if (kind == "packed" || kind == "gptq") {
    return want_attribute(ceil_div(shape.columns * attributes.get_int("bits"), 32) == words, kKind, "columns",
                          std::to_string(shape.columns), "as many as the codes' words hold");
  }
  return want_attribute(attributes.get_int("columns") == 0 || attributes.get_int("columns") == shape.columns, kKind,
                        "columns", std::to_string(attributes.get_int("columns")), std::to_string(shape.columns));
}

Status check_parts(const InferInput& input, const AssembledShape& shape) {
  const Attributes& attributes = input.attributes;
  const std::string& kind = attributes.get_string("codes");
  const tensor::Type& scale = input.operands[1];
  const tensor::Shape& leading = shape.leading;
  const bool transposed = kind == "gptq" || kind == "awq";
  FL_TRY(want(is_plain_float(scale) || scale.dtype == DType::kU8, kKind, "scale", scale, "floats, or u8 for E8M0"));
  if (transposed) {
    FL_TRY(want_sizes(scale, "scale", leading, {shape.scale_columns, shape.scale_rows}));
  } else {
    FL_TRY(want_sizes(scale, "scale", leading, {shape.scale_rows, shape.scale_columns}));
  }
  const AssembledOperands places = assembled_operands(attributes);
  FL_TRY(want_attribute(places.count == static_cast<int>(input.operands.size()), kKind, "operands",
                        std::to_string(input.operands.size()), std::to_string(places.count)));
  const int64_t row_words = ceil_div(shape.rows * attributes.get_int("bits"), 32);
  if (places.zero >= 0) {
    const tensor::Type& zero = input.operands[static_cast<size_t>(places.zero)];
    FL_TRY(want(zero.layout == tensor::Layout::kRowMajor && zero.dtype == (kind == "i8" ? DType::kI8 : DType::kI32),
                kKind, "zero", zero, kind == "i8" ? "i8" : "i32"));
    if (kind == "i8") {
      FL_TRY(want_sizes(zero, "zero", leading, {shape.scale_rows, shape.scale_columns}));
    } else if (transposed) {
      FL_TRY(want_sizes(zero, "zero", leading, {shape.scale_columns, row_words}));
    } else {
      FL_TRY(want_sizes(zero, "zero", leading, {row_words, shape.scale_columns}));
    }
  }
  if (places.global >= 0) {
    const tensor::Type& global = input.operands[static_cast<size_t>(places.global)];
    FL_TRY(want(is_plain_float(global), kKind, "global", global, "floats"));
    FL_TRY(want_sizes(global, "global", leading, {}));
  }
  if (places.order >= 0) {
    const tensor::Type& order = input.operands[static_cast<size_t>(places.order)];
    FL_TRY(want(is_i32(order), kKind, "order", order, "i32"));
    FL_TRY(want_sizes(order, "order", leading, {shape.columns}));
  }
  return ok_status();
}

Result<Types> infer(const InferInput& input) {
  const Attributes& attributes = input.attributes;
  FL_TRY(check_codes(input.operands[0], attributes));
  const std::vector<int64_t>& block = attributes.get_ints("block");
  FL_TRY(want_attribute(block.size() == 2 && block[0] > 0 && block[1] > 0, kKind, "block", attribute_to_string(block),
                        "two sizes above 0"));
  const AssembledShape shape = assembled_shape(input.operands[0], attributes);
  FL_TRY(check_columns(shape, input.operands[0], attributes));
  FL_TRY(check_parts(input, shape));
  const std::string& format = attributes.get_string("format");
  const auto dtype = tensor::dtype_from_name(format);
  FL_TRY(want_attribute(dtype == DType::kF32 || (dtype && can_assemble(input.operands, attributes, *dtype)), kKind,
                        "format", format, "f32, or a block format that holds these codes and scales"));
  tensor::Shape result = shape.leading;
  result.emplace_back(shape.rows);
  result.emplace_back(shape.columns);
  return Types{tensor::Type::tensor(*dtype, std::move(result))};
}

// Along the axes of a stack: every part that has as many axes is cut too. Rows and columns are cut before the parts are
// put together only where words and blocks allow; that is for the splitting pass to see.
std::vector<ShardRule> shard(const InferInput& input) {
  std::vector<ShardRule> rules;
  const int leading = rank(input.operands[0]) - 2;
  for (int axis = 0; axis < leading; ++axis) {
    ShardRule rule{"axis", {}, {axis}, false};
    for (const tensor::Type& operand : input.operands) rule.operand_axes.push_back(axis < rank(operand) ? axis : -1);
    rules.push_back(std::move(rule));
  }
  return rules;
}

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values, 1);
}

}  // namespace

AssembledOperands assembled_operands(const Attributes& attributes) {
  AssembledOperands places;
  int next = 2;
  const std::string& zero = attributes.get_string("zero");
  if (zero == "stored" || zero == "stored_minus_one") places.zero = next++;
  if (attributes.get_string("global") != "none") places.global = next++;
  if (attributes.get_bool("ordered")) places.order = next++;
  places.count = next;
  return places;
}

AssembledShape assembled_shape(const tensor::Type& codes, const Attributes& attributes) {
  const std::string& kind = attributes.get_string("codes");
  const int64_t per_word = 32 / attributes.get_int("bits");
  const std::vector<int64_t>& block = attributes.get_ints("block");
  AssembledShape out;
  out.leading.assign(codes.shape.begin(), codes.shape.end() - 2);
  const int64_t first = codes.shape[codes.shape.size() - 2].factor;
  const int64_t last = codes.shape.back().factor;
  const int64_t stated = attributes.get_int("columns");
  out.rows = kind == "gptq" ? last : first;
  out.columns = last;
  if (kind == "e2m1") out.columns = 2 * last;
  if (kind == "packed") out.columns = stated > 0 ? stated : last * per_word;
  if (kind == "gptq") out.columns = stated > 0 ? stated : first * per_word;
  if (kind == "awq") {
    out.rows = last * per_word;
    out.columns = first;
  }
  out.scale_rows = ceil_div(out.rows, block[0]);
  out.scale_columns = ceil_div(out.columns, block[1]);
  return out;
}

bool can_assemble(std::span<const tensor::Type> operands, const Attributes& attributes, DType format) {
  const std::string& kind = attributes.get_string("codes");
  const AssembledShape shape = assembled_shape(operands[0], attributes);
  const int64_t block = attributes.get_ints("block")[1];
  const bool whole_blocks = block % 32 == 0 || block >= shape.columns;
  if (attributes.get_bool("ordered") || shape.columns % tensor::dtype_info(format).block_elements != 0) return false;
  const bool in_words = kind == "packed" || kind == "gptq" || kind == "awq";
  switch (format) {
    case DType::kInt4G:
      return in_words && attributes.get_int("bits") <= 4 && whole_blocks;
    case DType::kInt8G:
      return (kind == "i8" || (in_words && attributes.get_int("bits") == 8)) && whole_blocks;
    case DType::kFP8G:
      return kind == "e4m3" && whole_blocks && attributes.get_string("global") == "none";
    case DType::kNVFP4:
      return kind == "e2m1" && block == 16 && operands[1].dtype == DType::kF8E4M3;
    case DType::kMXFP4:
      return kind == "e2m1" && block == 32 && attributes.get_string("global") == "none" &&
             (operands[1].dtype == DType::kU8 || operands[1].dtype == DType::kF8E8M0);
    default:
      return false;
  }
}

OpDef assemble_weight_def() {
  OpDef def;
  def.kind = kKind;
  def.name = "assemble_weight";
  def.operands = {{"codes"}, {"scale"}, {"rest", OperandDef::Arity::kVariadic}};
  def.attributes = {
      {"format", AttributeType::kString, true, {}, "int4g, int8g, fp8g, nvfp4, mxfp4, or f32"},
      {"codes", AttributeType::kString, true, {}, "how codes are stored: e4m3, e5m2, i8, e2m1, packed, gptq, awq"},
      {"bits", AttributeType::kInt, false, int64_t{8}, "of a code"},
      {"block", AttributeType::kInts, true, {}, "rows and columns that share a scale"},
      {"columns", AttributeType::kInt, false, int64_t{0}, "K, where the last word is not full; 0: all words are"},
      {"zero", AttributeType::kString, false, std::string("none"),
       "what is subtracted from a code: none, middle (2^(bits-1)), stored, stored_minus_one (modulo 2^bits)"},
      {"global", AttributeType::kString, false, std::string("none"),
       "a scale of the whole matrix: none, multiplies, divides"},
      {"ordered", AttributeType::kBool, false, false, "column k has the scale of group order[k]"}};
  def.meaning =
      "y[.., r, k] = scale[.., r / block[0], k / block[1]] * (code[.., r, k] - zero) as [.., R, K]. Operands: codes, "
      "scale, then zero, global and order as the attributes say. codes: e4m3, e5m2, i8 [.., R, K]; e2m1 [.., R, K/2], "
      "low nibble first; packed i32 [.., R, K bits/32], first code in the low bits; gptq i32 [.., K bits/32, R]; awq "
      "i32 "
      "[.., K, R bits/32], rows of 8 in the order 0 2 4 6 1 3 5 7 from the low bits. packed, gptq and awq codes are "
      "unsigned. scale: floats or E8M0 bytes; for gptq and awq [.., groups, R]. zero: as the codes, packed along the "
      "rows.";
  def.rounding =
      "none in the block formats; f32: what decoding the block format gives, (scale * global) rounded, then one "
      "product";
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none: a stored weight";
  return def;
}

}  // namespace firstlight::ops
