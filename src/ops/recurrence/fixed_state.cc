// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrence/fixed_state.h"

namespace firstlight::ops {
namespace {

std::string shape_text(const tensor::Dim& rows, std::initializer_list<int64_t> sizes) {
  std::string text = "f32[" + rows.to_string();
  for (const int64_t size : sizes) text += ", " + std::to_string(size);
  return text + "]";
}

std::string_view operand_name(OpKind op, size_t operand) { return op_def(op).operands[operand].name; }

}  // namespace

Status want_fixed_component(const InferInput& input, OpKind op, int64_t heads, int64_t width) {
  const std::string prefix = std::string(op_name(op)) + ": ";
  if (input.state == nullptr) return invalid_argument(prefix + "operand state has no declaration");
  if (input.state->kind != StateKind::kFixed) {
    return invalid_argument(prefix + "state '" + input.state->name + "' is of kind " +
                            std::string(state_kind_name(input.state->kind)) + ", a fixed one wanted");
  }
  const std::string& name = input.attributes.get_string("component");
  const int index = input.state->component_index(name);
  FL_TRY(want_attribute(index >= 0, op, "component", "\"" + name + "\"",
                        "a component of state '" + input.state->name + "'"));
  const StateComponent& part = input.state->components[static_cast<size_t>(index)];
  if (part.heads == heads && part.width == width && part.dtype == tensor::DType::kF32) return ok_status();
  return invalid_argument(prefix + "component '" + name + "' of state '" + input.state->name + "' is " +
                          std::string(tensor::dtype_name(part.dtype)) + "[" + std::to_string(part.heads) + " x " +
                          std::to_string(part.width) + "], wanted f32[" + std::to_string(heads) + " x " +
                          std::to_string(width) + "]");
}

Status want_activation(const InferInput& input, OpKind op, size_t operand, std::initializer_list<int64_t> sizes) {
  const tensor::Type& found = input.operands[operand];
  const tensor::Dim rows = rank(input.operands[0]) > 0 ? input.operands[0].shape[0] : tensor::Dim(0);
  tensor::Shape shape{rows};
  for (const int64_t size : sizes) shape.emplace_back(size);
  return want(is_f32(found) && has_shape(found, shape), op, operand_name(op, operand), found, shape_text(rows, sizes));
}

Result<int64_t> static_size(const InferInput& input, OpKind op, size_t operand, int wanted_rank, int axis) {
  const tensor::Type& found = input.operands[operand];
  bool fits = is_f32(found) && rank(found) == wanted_rank;
  for (int i = 1; fits && i < wanted_rank; ++i) {
    const tensor::Dim dim = found.shape[static_cast<size_t>(i)];
    fits = dim.is_static() && dim.factor > 0;
  }
  FL_TRY(want(fits, op, operand_name(op, operand), found,
              "f32 of rank " + std::to_string(wanted_rank) + " with sizes that are known but for the first"));
  return found.shape[static_cast<size_t>(axis)].factor;
}

Cost recurrence_cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values,
                     double operations) {
  Cost cost = elementwise_cost(input, results, values, 0);
  if (input.state == nullptr) return cost;
  const int index = input.state->component_index(input.attributes.get_string("component"));
  if (index < 0) return cost;
  const StateComponent& part = input.state->components[static_cast<size_t>(index)];
  const double elements = static_cast<double>(part.heads) * static_cast<double>(part.width);
  const double sequences = static_cast<double>(values.sequences);
  cost.operations = operations * elements * static_cast<double>(input.operands[0].shape[0].at(values));
  cost.bytes_read += 4 * elements * sequences;
  cost.bytes_written += 4 * elements * sequences;
  return cost;
}

AttributeDef component_attribute() {
  return {"component", AttributeType::kString, true, {}, "the part of the fixed state that is read and updated"};
}

}  // namespace firstlight::ops
