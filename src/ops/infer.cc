// SPDX-License-Identifier: Apache-2.0
#include "ops/infer.h"

#include <algorithm>

#include "base/check.h"

namespace firstlight::ops {

using tensor::Dim;
using tensor::Shape;
using tensor::Type;

Status want(bool holds, OpKind op, std::string_view operand, const Type& found, std::string_view wanted) {
  if (holds) return ok_status();
  return invalid_argument(std::string(op_name(op)) + ": operand " + std::string(operand) + " is " + found.to_string() +
                          ", wanted " + std::string(wanted));
}

Status want_attribute(bool holds, OpKind op, std::string_view attribute, std::string_view found,
                      std::string_view wanted) {
  if (holds) return ok_status();
  return invalid_argument(std::string(op_name(op)) + ": attribute " + std::string(attribute) + " is " +
                          std::string(found) + ", wanted " + std::string(wanted));
}

const Type* optional_operand(const InferInput& input, size_t i) {
  return i < input.operands.size() ? &input.operands[i] : nullptr;
}

bool is_f32(const Type& type) { return is_plain(type) && type.dtype == tensor::DType::kF32; }
bool is_i32(const Type& type) { return is_plain(type) && type.dtype == tensor::DType::kI32; }
bool is_block_format(tensor::DType type) { return tensor::dtype_info(type).block_elements > 1; }
bool is_plain(const Type& type) {
  return !type.is_state() && !is_block_format(type.dtype) && type.layout == tensor::Layout::kRowMajor;
}
bool is_plain_float(const Type& type) { return is_plain(type) && tensor::dtype_info(type.dtype).is_float; }
bool has_shape(const Type& type, const Shape& shape) { return !type.is_state() && type.shape == shape; }
int rank(const Type& type) { return static_cast<int>(type.shape.size()); }

Dim last_dim(const Type& type) {
  FL_CHECK(!type.shape.empty());
  return type.shape.back();
}

Shape leading_dims(const Type& type) {
  Shape shape = type.shape;
  if (!shape.empty()) shape.pop_back();
  return shape;
}

Type f32(Shape shape) { return Type::tensor(tensor::DType::kF32, std::move(shape)); }
Type i32(Shape shape) { return Type::tensor(tensor::DType::kI32, std::move(shape)); }

int resolve_axis(int64_t axis, int rank) {
  const int64_t resolved = axis < 0 ? axis + rank : axis;
  return resolved < 0 || resolved >= rank ? -1 : static_cast<int>(resolved);
}

bool broadcast_onto(Shape& shape, const Shape& other) {
  if (shape.size() < other.size()) shape.insert(shape.begin(), other.size() - shape.size(), Dim(1));
  for (size_t i = 0; i < other.size(); ++i) {
    Dim& dim = shape[shape.size() - other.size() + i];
    if (dim == Dim(1)) dim = other[i];
    if (other[i] != dim && other[i] != Dim(1)) return false;
  }
  return true;
}

double type_bytes(const Type& type, const tensor::SymbolValues& values) {
  if (type.is_state()) return 0;
  const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
  return static_cast<double>(tensor::num_elements(type.shape, values)) * static_cast<double>(info.block_bytes) /
         static_cast<double>(info.block_elements);
}

Cost elementwise_cost(const InferInput& input, std::span<const Type> results, const tensor::SymbolValues& values,
                      double operations_per_element) {
  Cost cost;
  for (const Type& operand : input.operands) cost.bytes_read += type_bytes(operand, values);
  for (const Type& result : results) cost.bytes_written += type_bytes(result, values);
  if (!results.empty() && !results[0].is_state()) {
    cost.operations = operations_per_element * static_cast<double>(tensor::num_elements(results[0].shape, values));
  }
  return cost;
}

DecomposeBuilder::Value emit_map(DecomposeBuilder& builder, std::initializer_list<DecomposeBuilder::Value> operands,
                                 std::string_view formula) {
  Attributes attributes;
  attributes.set("expr", Expression::parse(formula).value());
  return builder.emit(OpKind::kMap, std::span(operands.begin(), operands.size()), std::move(attributes));
}

DecomposeBuilder::Value emit_reduce(DecomposeBuilder& builder, DecomposeBuilder::Value x, std::string_view op) {
  Attributes attributes;
  attributes.set("op", std::string(op));
  attributes.set("axis", int64_t{-1});
  attributes.set("keep", true);
  return builder.emit(OpKind::kReduce, std::span(&x, 1), std::move(attributes));
}

}  // namespace firstlight::ops
