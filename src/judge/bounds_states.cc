// SPDX-License-Identifier: Apache-2.0
// Bounds of operators that read or write a state, and of its pages.
#include <algorithm>

#include "base/check.h"
#include "judge/bound_parts.h"
#include "ops/attention/segments.h"
#include "tensor/state_rows.h"

namespace firstlight::judge {
namespace {

// Steps of recur_selective are times: below zero factors turn round, and no bound is stated.
bool runs_backwards(const Case& c) {
  if (c.op != OpKind::kRecurSelective) return false;
  const Row steps = c.operands[1].values();
  return std::any_of(steps.begin(), steps.end(), [](double v) { return std::isfinite(v) && v < 0; });
}

// Whether no transition of a delta rule makes a state longer, by the norms of its rows (those that are numbers).
bool shrinks(const Case& c) {
  const bool is_delta = c.op == OpKind::kRecurDelta;
  const Row decay = c.operands[is_delta ? 3 : 1].values();
  if (std::any_of(decay.begin(), decay.end(), [](double v) { return std::isfinite(v) && v > 0; })) return false;
  const Tensor& left = c.operands[is_delta ? 1 : 4];
  const Row a = left.values(), b = c.operands[is_delta ? 1 : 5].values();
  const auto width = at(last(left));
  double longest = 0;
  for (size_t first = 0; first + width <= a.size(); first += width) {
    double aa = 0, bb = 0;
    bool is_number = true;
    for (size_t i = first; i < first + width; ++i) {
      is_number = is_number && std::isfinite(a[i]) && std::isfinite(b[i]);
      aa += a[i] * a[i];
      bb += b[i] * b[i];
    }
    if (is_number) longest = std::max(longest, std::sqrt(aa * bb));
  }
  if (!is_delta) return longest <= 1.01;
  return longest * std::max(largest_finite(c.operands[4].values()), 1.0) <= 1.01;
}

// (|S| + 4 |v|) (1 + |q|), |S| over the state before and after: what one token's roundings are a share of.
double delta_norms(const Case& c, const Outcome& wanted) {
  const State& state = c.state[0];
  const auto component = at(state.decl.component_index(c.attributes.get_string("component")));
  const auto norm = [](const Row& values) {
    double squares = 0;
    for (const double v : values) squares += std::isfinite(v) ? v * v : 0;
    return std::sqrt(squares);
  };
  const auto longest_row = [&](const Tensor& t) {
    const Row values = t.values();
    const auto width = static_cast<int64_t>(last(t));
    double top = 0;
    for (auto row = values.begin(); row < values.end(); row += width) top = std::max(top, norm(Row(row, row + width)));
    return top;
  };
  double size = 0;
  for (const auto& values : state.rows[component]) size = std::max(size, norm(Row(values.begin(), values.end())));
  for (const auto& page : wanted.pages) size = std::max(size, norm(fixed_component(state, component, page)));
  const size_t value_operand = c.op == OpKind::kRecurDelta ? 2 : 3;
  return (size + 4 * longest_row(c.operands[value_operand])) * (1 + longest_row(c.operands[0]));
}

// Of rows that are blocks, row by row. What no row has been written to is NaN.
Row block_values(const State& state, const std::vector<std::byte>& page) {
  Row all;
  size_t offset = 0;
  for (const ops::StateComponent& part : state.decl.components) {
    const auto bytes = at(tensor::state_row_bytes(part.dtype, part.width));
    const int64_t rows = part.heads * state.page_rows;
    std::vector<float> row(at(part.width));
    for (int64_t r = 0; r < rows; ++r) {
      const std::span line(page.data() + offset + at(r) * bytes, bytes);
      FL_CHECK(tensor::decode_row(part.dtype, line, row).ok());
      all.insert(all.end(), row.begin(), row.end());
    }
    offset = (offset + at(rows) * bytes + 63) / 64 * 64;
  }
  return all;
}

// The widest step between two neighbours that a block whose largest element is `top` may hold, and what its scale may
// move by.
double block_step(tensor::DType dtype, double top) {
  if (dtype == tensor::DType::kQ8_0) return top * (1.0 / 127 + 0x1p-9);
  if (dtype == tensor::DType::kMXFP8) return top * 0x1p-3;
  return 2 * top * (1.0 / 15 + 0x1p-9);
}

// The largest norm of a row of a component, by head, over everything that a sequence holds.
double largest_row_norm(const State& state, const std::string& component) {
  const auto index = at(state.decl.component_index(component));
  const auto width = at(state.decl.components[index].width);
  double top = 0;
  for (const auto& values : state.rows[index]) {
    for (size_t first = 0; first + width <= values.size(); first += width) {
      double squares = 0;
      for (size_t i = first; i < first + width; ++i) {
        const auto v = static_cast<double>(values[i]);
        squares += std::isfinite(v) ? v * v : 0;
      }
      top = std::max(top, squares);
    }
  }
  return std::sqrt(top);
}

}  // namespace

// What attend's sums over n keys add, for values of the largest size: 120 u whatever n is, for few keys less; on
// devices blocks of 64 keys are summed in float32, n / 16 u more.
double rescaling(const Case& c, bool on_device) {
  double longest = 0, top = 0;
  for (const State& state : c.state) {
    for (const Sequence& s : state.sequences) longest = std::max(longest, static_cast<double>(rows_of(state.decl, s)));
    for (const auto& part : state.rows) {
      for (const auto& values : part) top = std::max(top, largest_finite(Row(values.begin(), values.end())));
    }
  }
  return (std::min(120.0, longest / 8) + (on_device ? longest / 16 : 0)) * kUnit * top;
}

Limits recurrence_limits(const Case& c, const Outcome& wanted, bool on_device) {
  const bool by_magnitude = c.op != OpKind::kRecurDelta && c.op != OpKind::kRecurDplr;
  const Outcome sizes = by_magnitude ? magnitudes(c) : wanted;
  const State& state = c.state[0];
  const auto component = at(state.decl.component_index(c.attributes.get_string("component")));
  const double grown = growth(c);
  double longest = 1;
  for (const Sequence& s : state.sequences) longest = std::max(longest, static_cast<double>(s.num_tokens));
  const double key = c.operands[0].type.shape.size() > 2 ? static_cast<double>(last(c.operands[0])) : 0;
  const double taps = c.op == OpKind::kConv1d ? static_cast<double>(last(c.operands[1])) : 0;
  const double units = taps > 0 ? taps + 1 : 7 * longest + 2 * key + 32;
  const bool bounded = by_magnitude ? !runs_backwards(c) : shrinks(c);
  const double delta = by_magnitude ? 0 : (key + 40) * (on_device ? 2 : 1) * kUnit * delta_norms(c, wanted);
  // In what order numbers meet decides whether infinity or NaN comes of them, and whether sums pass the end.
  const auto range = [&](double y, double m) {
    if (!std::isfinite(y))
      return bounded && std::fabs(m) < kLargest * 1e-3 ? exactly(y) : bounded ? no_number() : anything();
    if (!by_magnitude && is_unstated(c)) return bounded ? around(y, longest * delta) : anything();
    if (!by_magnitude) {
      const double own = (c.bound.absolute + c.bound.relative * std::fabs(y)) * grown * (1 + longest / 512);
      return bounded ? around(y, own) : anything();
    }
    if (!bounded || !(m < kLargest * 1e-3)) return anything();
    return around(y, units * (on_device ? 2 : 1) * kUnit * m + 8 * (on_device ? 0x1p-126 : 0x1p-149));
  };
  const Row magnitude = sizes.results[0].values();
  const Row found = wanted.results[0].values();
  Limits limits;
  limits.results.resize(wanted.results.size());
  for (size_t i = 0; i < found.size(); ++i) limits.results[0].push_back(range(found[i], magnitude[i]));
  for (size_t s = 0; s < wanted.pages.size(); ++s) {
    const Row values = fixed_component(state, component, wanted.pages[s]);
    const Row m = fixed_component(state, component, sizes.pages[s]);
    auto& own = limits.state.emplace_back();
    for (size_t i = 0; i < values.size(); ++i) own.push_back(range(values[i], m[i]));
  }
  return limits;
}

std::vector<double> page_values(const Case& c, const std::vector<std::byte>& page) {
  const tensor::DType dtype = c.state[0].decl.components[0].dtype;
  if (tensor::dtype_info(dtype).is_quantised) return block_values(c.state[0], page);
  const auto count = static_cast<int64_t>(page.size()) / tensor::dtype_info(dtype).block_bytes;
  return Tensor{tensor::Type::tensor(dtype, {count}), page}.values();
}

// Rows computed on their way into the state: where a value lies on the border of two numbers of the stored type, the
// next one is as right.
Ranges page_limits(const Case& c, const Outcome& wanted, double grown) {
  const tensor::DType dtype = c.state[0].decl.components[0].dtype;
  const double unit = dtype == tensor::DType::kF16 ? 0x1p-10 : dtype == tensor::DType::kBF16 ? 0x1p-7 : 0;
  const bool blocks = tensor::dtype_info(dtype).is_quantised;
  Ranges ranges;
  for (const auto& page : wanted.pages) {
    auto& own = ranges.emplace_back();
    const Row values = page_values(c, page);
    const double step = blocks ? block_step(dtype, largest_finite(values)) : 0;
    for (const double v : values) {
      own.push_back(around(v, (c.bound.absolute + (c.bound.relative + unit) * std::fabs(v) + step) * grown));
    }
  }
  return ranges;
}

namespace {

// The largest norm of a key, the largest element of a value, and how many keys there are.
struct Reach {
  double key = 0, value = 0, keys = 0;
};

Reach reach_of(const Case& c) {
  const ops::KeySegments all = ops::key_segments(c.op, c.attributes, c.operands.size()).value();
  Reach reach;
  for (size_t s = 0; s < all.segments.size(); ++s) {
    reach.key = std::max(reach.key, largest_row_norm(c.state[s], all.segments[s].key));
    const auto index = at(c.state[s].decl.component_index(all.segments[s].value));
    double longest = 0;
    for (const auto& values : c.state[s].rows[index])
      reach.value = std::max(reach.value, largest_finite(Row(values.begin(), values.end())));
    for (const Sequence& sequence : c.state[s].sequences)
      longest = std::max(longest, static_cast<double>(rows_of(c.state[s].decl, sequence)));
    reach.keys += longest;
  }
  return reach;
}

// scale |q|, per query and head.
Row scaled_norms(const Case& c) {
  const Row q = c.operands[0].values();
  const auto width = at(last(c.operands[0]));
  Row norms;
  for (size_t first = 0; first < q.size(); first += width) {
    double squares = 0;
    for (size_t i = first; i < first + width; ++i) squares += q[i] * q[i];
    norms.push_back(std::fabs(c.attributes.get_float("scale")) * std::sqrt(squares));
  }
  return norms;
}

}  // namespace

// What attention in bf16 adds per query and head: queries and keys rounded move a score by epsilon = 2.01 u_b scale |q|
// max |k|, a weight by e^epsilon, above and below the line; weights and values rounded, 2 u_b. Two means of the same
// values are never further apart than twice the largest. No less than what vdpbf16ps flushes.
Row attend_roundings(const Case& c, ComputeMode mode) {
  Row out = scaled_norms(c);
  const Reach reach = reach_of(c);
  for (double& v : out) {
    const double moved = std::expm1(2 * 2.01 * 0x1p-8 * v * reach.key) + 2.01 * 0x1p-8;
    v = mode == ComputeMode::kBf16 ? reach.value * std::min(2.0, moved) + reach.keys * 0x1p-126 : 0;
  }
  return out;
}

// (2 epsilon + 120u + n/8 u) max |v|, epsilon = (Dk + 28) u scale |q| max |k|: sum |q k| by its bound, and the scores'
// spread by twice that. A formula of scores may add what grows with positions: 4u n more.
Ranges attend_ranges(const Case& c, const Outcome& wanted, ComputeMode mode, bool on_device) {
  const auto width = static_cast<double>(last(c.operands[0]));
  const Reach reach = reach_of(c);
  const double positions = c.attributes.get_expression("score").empty() ? 0 : 4 * reach.keys * kUnit;
  const auto out_width = at(last(wanted.results[0]));
  Row tolerance = attend_roundings(c, mode);
  const Row norms = scaled_norms(c);
  for (size_t i = 0; i < norms.size(); ++i) {
    const double epsilon = (width + 28) * kUnit * norms[i] * reach.key + positions;
    tolerance[i] += (on_device ? 2 : 1) * (2 * epsilon + (15 + reach.keys / 64) * 8 * kUnit) * reach.value + 0x1p-126;
  }
  return around(wanted, [&](size_t, size_t i, double) { return tolerance[i / out_width]; });
}

// Queries as norm and rope leave them: 9 roundings of a pair at most, 20 on devices; a pair's length is that of the
// result's.
Limits rope_append_limits(const Case& c, const Outcome& wanted, bool on_device) {
  const double units = on_device ? 40 : 16;
  const double scale = std::max(std::fabs(c.attributes.get_float("scale")), 1.0);
  const auto width = at(last(c.operands[2]));
  const Row found = wanted.results[0].values();
  Limits limits;
  limits.results = around(wanted, [&](size_t, size_t i, double) {
    const auto first = found.begin() + static_cast<int64_t>(i / width * width);
    const double pair = largest_finite(Row(first, first + static_cast<int64_t>(width)));
    return units * kUnit * scale * pair + 4 * 0x1p-126;
  });
  const tensor::DType dtype = c.state[0].decl.components[0].dtype;
  const double stored = dtype == tensor::DType::kF16 ? 0x1p-10 : dtype == tensor::DType::kBF16 ? 0x1p-7 : 0;
  const bool blocks = tensor::dtype_info(dtype).is_quantised;
  for (const auto& page : wanted.pages) {
    auto& own = limits.state.emplace_back();
    const Row values = page_values(c, page);
    const double top = largest_finite(values);
    if (blocks) {
      for (const double v : values) own.push_back(around(v, block_step(dtype, top) + units * kUnit * scale * top));
      continue;
    }
    for (const double v : values)
      own.push_back(around(v, units * kUnit * scale * top + stored * std::fabs(v) + 0x1p-24 * (stored > 0)));
  }
  return limits;
}

}  // namespace firstlight::judge
