// SPDX-License-Identifier: Apache-2.0
// Words of the shape rules that recurrences share: the component of a fixed state that an operator updates, tests of
// activations, and the cost of passing through a state once per token.
#pragma once

#include "ops/infer.h"

namespace firstlight::ops {

// Ok when the state operand is a fixed one and attribute `component` names a float32 part of heads x width elements.
// Errors: kInvalidArgument naming the operator, what was found and what is wanted.
Status want_fixed_component(const InferInput& input, OpKind op, int64_t heads, int64_t width);

// Ok when the operand is f32 and its shape is [rows, sizes…] with `rows` the first operand's first axis.
Status want_activation(const InferInput& input, OpKind op, size_t operand, std::initializer_list<int64_t> sizes);

// The size of axis `axis` of operand `operand`, which must be f32 of that rank with sizes known but for the first.
Result<int64_t> static_size(const InferInput& input, OpKind op, size_t operand, int rank, int axis);

// `operations` per token and state element; the component's bytes are read and written once per sequence.
Cost recurrence_cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values,
                     double operations);

AttributeDef component_attribute();

}  // namespace firstlight::ops
