// SPDX-License-Identifier: Apache-2.0
#include "judge/bounds.h"

#include <cmath>

#include "judge/bound_parts.h"
#include "judge/products.h"

namespace firstlight::judge {
namespace {

double sum_of_axes(const Tensor& t) {
  double sum = 0;
  for (const tensor::Dim& dim : t.type.shape) sum += static_cast<double>(dim.factor);
  return sum;
}

}  // namespace

Limits stated_limits(const Case& c, const Outcome& wanted, ComputeMode mode) {
  const bool products = is_product(c.op);
  if (!products && c.bound.absolute == 0 && c.bound.relative == 0) return {};
  const Values tolerance = products ? product_tolerance(c, mode) : Values{};
  const auto stated = [&](double v) { return c.bound.absolute + c.bound.relative * std::fabs(v); };
  Limits limits;
  const bool attends = c.op == OpKind::kAttend || c.op == OpKind::kAttendSegments;
  const Row rounded = attends ? attend_roundings(c, mode) : Row{};
  const auto width = attends ? at(last(wanted.results[0])) : 1;
  limits.results = around(wanted, [&](size_t result, size_t i, double v) {
    return products ? tolerance[result][i] : stated(v) + (attends ? rounded[i / width] : 0);
  });
  if (c.op == OpKind::kRopeAppend) limits.state = page_limits(c, wanted, 1);
  if (!is_recurrence(c.op)) return limits;
  const State& state = c.state[0];
  const auto component = at(state.decl.component_index(c.attributes.get_string("component")));
  for (const auto& page : wanted.pages) {
    auto& own = limits.state.emplace_back();
    for (const double v : fixed_component(state, component, page)) own.push_back(around(v, stated(v)));
  }
  return limits;
}

Limits derived_limits(const Case& c, const Outcome& wanted, ComputeMode mode, bool on_device) {
  switch (c.op) {
    case OpKind::kLinear:
    case OpKind::kBatchedLinear:
    case OpKind::kFusedLinear:
      return {product_ranges(c, mode, on_device), {}};
    case OpKind::kMap: {
      const ops::RowStage stage{ops::RowStage::Reduce::kNone, c.attributes.get_expression("expr")};
      return {stage_ranges(c, {&stage, 1}, on_device), {}};
    }
    case OpKind::kFusedRows:
      return {fused_row_ranges(c, on_device), {}};
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
    case OpKind::kSoftmax:
      return {row_ranges(c, wanted, on_device), {}};
    case OpKind::kReduce:
      if (c.attributes.get_string("op") == "max" || c.attributes.get_string("op") == "min") return {};
      return {sum_ranges(c, wanted, sum_of_axes(c.operands[0]), on_device), {}};
    case OpKind::kCumsum:
    case OpKind::kEinsum:
    case OpKind::kInterp2d:
      return {sum_ranges(c, wanted, sum_of_axes(c.operands[0]), on_device), {}};
    case OpKind::kConv2d:
      return {sum_ranges(c, wanted, static_cast<double>(tensor::num_elements(c.operands[1].type.shape)), on_device),
              {}};
    case OpKind::kPool2d:
      if (c.attributes.get_string("op") == "max") return {};
      return {sum_ranges(c, wanted, 256, on_device), {}};
    case OpKind::kRoute:
      return {route_ranges(c, wanted, mode), {}};
    case OpKind::kRope:
      return {rope_ranges(c, wanted, on_device), {}};
    case OpKind::kRecurGla:
    case OpKind::kRecurDelta:
    case OpKind::kRecurSelective:
    case OpKind::kRecurElementwise:
    case OpKind::kRecurDplr:
    case OpKind::kConv1d:
      return recurrence_limits(c, wanted, on_device);
    case OpKind::kAttend:
    case OpKind::kAttendSegments:
      if (is_unstated(c)) return {attend_ranges(c, wanted, mode, on_device), {}};
      break;
    case OpKind::kRopeAppend:
      if (is_unstated(c)) return rope_append_limits(c, wanted, on_device);
      break;
    default:
      break;
  }
  if (is_unstated(c)) return {};
  const double grown = growth(c);
  const bool attends = c.op == OpKind::kAttend || c.op == OpKind::kAttendSegments;
  const double keys = attends ? rescaling(c, on_device) : 0;
  Limits limits;
  const Row rounded = attends ? attend_roundings(c, mode) : Row{};
  const auto width = attends ? at(last(wanted.results[0])) : 1;
  limits.results = around(wanted, [&](size_t, size_t i, double v) {
    return (c.bound.absolute + c.bound.relative * std::fabs(v)) * grown + keys + (attends ? rounded[i / width] : 0);
  });
  for (Range& range : limits.results[0]) {  // a weight too small for float32 is 0, and 0 times infinity NaN
    if (attends && !std::isfinite(range.low)) range = no_number();
  }
  if (c.op == OpKind::kRopeAppend) limits.state = page_limits(c, wanted, grown);
  return limits;
}

}  // namespace firstlight::judge
