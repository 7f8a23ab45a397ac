// SPDX-License-Identifier: Apache-2.0
#include "judge/bound_parts.h"

#include <algorithm>

namespace firstlight::judge {
namespace {

// The case with all signs taken off, but for the logarithms of factors.
Case absolute(const Case& c) {
  Case out = c;
  for (size_t k = 0; k < out.operands.size(); ++k) {
    const bool is_logarithm = (c.op == OpKind::kRecurGla && k == 3) || (c.op == OpKind::kRecurSelective && k == 2);
    const tensor::DType dtype = c.operands[k].type.dtype;
    if (is_logarithm || c.operands[k].type.is_state() || !tensor::dtype_info(dtype).is_float) continue;
    for (size_t size = at(tensor::dtype_info(dtype).block_bytes), i = size; i <= out.operands[k].data.size();
         i += size) {
      out.operands[k].data[i - 1] &= std::byte{0x7f};
    }
  }
  for (State& state : out.state) {
    for (auto& part : state.rows) {
      for (auto& values : part) {
        for (float& v : values) v = std::fabs(v);
      }
    }
  }
  return out;
}

}  // namespace

double largest_finite(const Row& values) {
  double top = 0;
  for (const double v : values) top = std::isfinite(v) ? std::max(top, std::fabs(v)) : top;
  return top;
}

Range around(double wanted, double tolerance) {
  if (!std::isfinite(wanted)) return exactly(wanted);
  if (!std::isfinite(tolerance)) return anything();
  return widened(exactly(wanted), 0, tolerance);
}

Ranges around(const Outcome& wanted, const std::function<double(size_t result, size_t i, double wanted)>& tolerance) {
  Ranges ranges;
  for (const Tensor& t : wanted.results) {
    auto& own = ranges.emplace_back();
    if (!tensor::dtype_info(t.type.dtype).is_float) continue;
    for (const double v : t.values()) own.push_back(around(v, tolerance(ranges.size() - 1, own.size(), v)));
  }
  return ranges;
}

Outcome magnitudes(const Case& c) {
  const Case positive = absolute(c);
  const auto operands = operand_types(positive);
  const auto results = result_types(positive);
  ThreadPool pool({1, false, 0});
  return run_case(positive,
                  *catalog::select_kernel(catalog::Backend::kReference, {}, {c.op, operands, results, c.attributes}),
                  ComputeMode::kF32, pool)
      .value();
}

double growth(const Case& c) {
  double top = 0;
  for (const Tensor& t : c.operands) {
    if (!t.type.is_state() && tensor::dtype_info(t.type.dtype).is_float)
      top = std::max(top, largest_finite(t.values()));
  }
  for (const State& state : c.state) {
    for (const auto& part : state.rows) {
      for (const auto& values : part) top = std::max(top, largest_finite(Row(values.begin(), values.end())));
    }
  }
  return std::max(1.0, top / 4);
}

}  // namespace firstlight::judge
