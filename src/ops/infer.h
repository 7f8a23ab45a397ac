// SPDX-License-Identifier: Apache-2.0
// Shared words of the operators' shape and type rules: errors that name operator, operand, found and wanted; tests of
// types; broadcasting; plain costs.
#pragma once

#include <initializer_list>
#include <string>

#include "ops/op.h"

namespace firstlight::ops {

using Types = std::vector<tensor::Type>;
using DecomposeResult = Result<std::vector<DecomposeBuilder::Value>>;

// Ok when `holds`; else kInvalidArgument "rms_norm: operand weight is f32[3], wanted a float vector of 4".
Status want(bool holds, OpKind op, std::string_view operand, const tensor::Type& found, std::string_view wanted);
// The same for an attribute; `found` is its text.
Status want_attribute(bool holds, OpKind op, std::string_view attribute, std::string_view found,
                      std::string_view wanted);

// The i-th operand, or null where a trailing optional one is absent.
const tensor::Type* optional_operand(const InferInput& input, size_t i);

inline constexpr int64_t kMaxPad = int64_t{1} << 20;  // elements that pad may add on one side

bool is_f32(const tensor::Type& type);
bool is_i32(const tensor::Type& type);
bool is_plain(const tensor::Type& type);        // any element type with one element a block, row-major
bool is_plain_float(const tensor::Type& type);  // f64, f32, f16, bf16, f8*; row-major
bool is_block_format(tensor::DType type);       // several elements a block
bool has_shape(const tensor::Type& type, const tensor::Shape& shape);
int rank(const tensor::Type& type);
tensor::Dim last_dim(const tensor::Type& type);  // of rank >= 1
tensor::Shape leading_dims(const tensor::Type& type);
tensor::Type f32(tensor::Shape shape);
tensor::Type i32(tensor::Shape shape);

// Axis in [0, rank), negative ones counted from the end; -1 when out of range.
int resolve_axis(int64_t axis, int rank);

// Right-aligned broadcasting of one more shape onto `shape`; false when two sizes differ and neither is 1.
bool broadcast_onto(tensor::Shape& shape, const tensor::Shape& other);

// Bytes of a tensor however it lies; 0 for states.
double type_bytes(const tensor::Type& type, const tensor::SymbolValues& values);
// `operations_per_element` for each element of the first result, all operands read, all results written.
Cost elementwise_cost(const InferInput& input, std::span<const tensor::Type> results,
                      const tensor::SymbolValues& values, double operations_per_element);

// Emits a map of one formula in the text form of ops/expression.h.
DecomposeBuilder::Value emit_map(DecomposeBuilder& builder, std::initializer_list<DecomposeBuilder::Value> operands,
                                 std::string_view formula);
// Emits a reduction of the last axis that keeps it as 1.
DecomposeBuilder::Value emit_reduce(DecomposeBuilder& builder, DecomposeBuilder::Value x, std::string_view op);

}  // namespace firstlight::ops
