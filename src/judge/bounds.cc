// SPDX-License-Identifier: Apache-2.0
#include "judge/bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "judge/products.h"
#include "ops/attention/segments.h"
#include "ops/infer.h"
#include "tensor/state_rows.h"

namespace firstlight::judge {
namespace {

using catalog::ComputeMode;
using ops::OpKind;
using Row = std::vector<double>;

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kUnit = 0x1p-24;

size_t at(int64_t i) { return static_cast<size_t>(i); }
int64_t last(const Tensor& t) { return t.type.shape.empty() ? 1 : t.type.shape.back().factor; }

double largest_finite(const Row& values) {
  double top = 0;
  for (const double v : values) top = std::isfinite(v) ? std::max(top, std::fabs(v)) : top;
  return top;
}

// A number that is none, or none any more, must be that; a tolerance without end allows everything.
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

// What the judge makes of absolute values.
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

// Operand k's index for element i of the broadcast shape.
size_t place_of(const tensor::Shape& own, const tensor::Shape& shape, size_t i) {
  int64_t rest = static_cast<int64_t>(i), index = 0, stride = 1;
  for (size_t back = 0; back < own.size(); ++back) {
    const int64_t size = own[own.size() - 1 - back].factor;
    const int64_t wide = shape[shape.size() - 1 - back].factor;
    if (size != 1) index += rest % wide * stride;
    rest /= wide;
    stride *= size;
  }
  return at(index);
}

// Sums in float32 in any order, or better.
Range reduced(const ops::RowStage& stage, std::span<const Range> row) {
  Range total = stage.reduce == ops::RowStage::Reduce::kMax ? exactly(-HUGE_VAL) : exactly(0);
  double magnitude = 0;
  bool is_nan = false, plus = false, minus = false;
  for (const Range& r : row) {
    is_nan = is_nan || std::isnan(r.low);
    total.may_be_nan = total.may_be_nan || r.may_be_nan;
    if (stage.reduce == ops::RowStage::Reduce::kMax) {
      total.low = std::max(total.low, r.low);
      total.high = std::max(total.high, r.high);
      continue;
    }
    plus = plus || r.high == HUGE_VAL;
    minus = minus || r.low == -HUGE_VAL;
    total.low += r.low;
    total.high += r.high;
    magnitude += std::max(std::fabs(r.low), std::fabs(r.high));
  }
  if (is_nan) return exactly(std::nan(""));
  if (stage.reduce == ops::RowStage::Reduce::kMax) return total;
  const auto n = static_cast<double>(row.size());
  if (plus && minus) return std::isnan(total.low) && std::isnan(total.high) ? exactly(std::nan("")) : anything();
  if (std::isinf(total.low) && total.low == total.high) return total;
  if (magnitude > kLargest) return anything();  // parts may pass the end
  const Range plain = total;
  total = widened(total, 0, (n + 2) * kUnit * magnitude);
  if (plain.low >= 0) total.low = std::max(total.low, 0.0);
  if (stage.reduce != ops::RowStage::Reduce::kMean) return total;
  return widened({total.low / n, total.high / n, total.may_be_nan}, 2 * kUnit, 0x1p-149);
}

// Formulas along rows in stages, as fused_rows has them (map: one stage that is not reduced).
Ranges stage_ranges(const Case& c, std::span<const ops::RowStage> stages, bool on_device) {
  tensor::Shape shape;
  std::vector<Row> operands;
  for (const Tensor& t : c.operands) {
    FL_CHECK(ops::broadcast_onto(shape, t.type.shape));
    operands.push_back(t.values());
  }
  const auto count = at(tensor::num_elements(shape));
  const auto width = shape.empty() ? size_t{1} : at(shape.back().factor);
  Ranges values(stages.size());
  for (size_t first = 0; first < count; first += width) {
    for (size_t s = 0; s < stages.size(); ++s) {
      std::vector<Range> row;
      for (size_t i = first; i < first + width; ++i) {
        std::vector<Range> inputs;
        for (size_t k = 0; k < operands.size(); ++k) {
          inputs.push_back(exactly(operands[k][place_of(c.operands[k].type.shape, shape, i)]));
        }
        for (size_t before = 0; before < s; ++before) {
          const bool one = stages[before].reduce != ops::RowStage::Reduce::kNone;
          inputs.push_back(values[before][one ? first / width : i]);
        }
        row.push_back(range_of(stages[s].formula, inputs, on_device));
      }
      if (stages[s].reduce == ops::RowStage::Reduce::kNone) {
        values[s].insert(values[s].end(), row.begin(), row.end());
      } else {
        values[s].push_back(reduced(stages[s], row));
      }
    }
  }
  return values;
}

Ranges fused_row_ranges(const Case& c, bool on_device) {
  const auto stages = ops::row_stages(c.attributes);
  const Ranges values = stage_ranges(c, stages, on_device);
  Ranges out;
  for (const int64_t result : c.attributes.get_ints("results")) out.push_back(values[at(result)]);
  return out;
}

// In float32 what is infinite or NaN stays that; where operands are rounded further, it is one of them.
Ranges product_ranges(const Case& c, ComputeMode mode, bool on_device) {
  const auto [values, tolerances] = plain_products(c, mode);
  Ranges products;
  for (size_t p = 0; p < values.size(); ++p) {
    auto& own = products.emplace_back();
    for (size_t i = 0; i < values[p].size(); ++i) {
      Range range = around(values[p][i], tolerances[p][i]);
      if (!std::isfinite(values[p][i]) && mode != ComputeMode::kF32) range = no_number();
      own.push_back(range);
    }
  }
  if (c.op != OpKind::kFusedLinear || c.attributes.get_expressions("epilogue").empty()) return products;
  const ops::FusedLinearOperands places = ops::fused_linear_operands(c.attributes);
  std::vector<Row> extras;
  for (int i = 0; i < places.num_extras; ++i) extras.push_back(c.operands[at(places.first_extra + i)].values());
  const auto width = at(c.operands[at(places.first_weight)].type.shape[0].factor);
  Ranges out;
  for (const ops::Expression& e : c.attributes.get_expressions("epilogue")) {
    auto& own = out.emplace_back();
    for (size_t i = 0; i < products[0].size(); ++i) {
      std::vector<Range> inputs;
      for (const auto& product : products) inputs.push_back(product[i]);
      for (const Row& extra : extras) {
        inputs.push_back(exactly(extra[extra.size() == products[0].size() ? i : i % width]));
      }
      own.push_back(range_of(e, inputs, on_device));
    }
  }
  return out;
}

// What a mean in float32 moves a normed row by, in units of roundoff: the largest element over the deviation.
double rounded_mean(const double* x, size_t width, const Case& c) {
  double sum = 0, squares = 0, top = 0;
  for (size_t i = 0; i < width; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(width);
  for (size_t i = 0; i < width; ++i) {
    squares += (x[i] - mean) * (x[i] - mean);
    top = std::max(top, std::fabs(x[i]));
  }
  return 2 * top / std::sqrt(squares / static_cast<double>(width) + c.attributes.get_float("eps"));
}

// Of elements beside one another in a row of operand 0: rms_norm, layer_norm, softmax.
Ranges row_ranges(const Case& c, const Outcome& wanted, bool on_device) {
  const Row x = c.operands[0].values();
  const auto width = at(last(c.operands[0]));
  const Row weight = c.operands.size() > 1 ? c.operands[1].values() : Row(width, 1.0);
  const Row bias = c.operands.size() > 2 ? c.operands[2].values() : Row(width, 0.0);
  const double offset = c.op == OpKind::kRmsNorm ? c.attributes.get_float("offset") : 0;
  const auto n = static_cast<double>(width);
  const double tiny = on_device ? 0x1p-126 : 0x1p-149;
  const double sums = on_device ? n / 32 + 24 : 0;  // a row is shared by 32 threads or more
  double top = 0, shifted = 0;
  return around(wanted, [&](size_t, size_t i, double y) {
    const size_t column = i % width;
    if (column == 0 && c.op == OpKind::kLayerNorm) shifted = rounded_mean(x.data() + i, width, c) * sums * kUnit;
    if (column == 0)
      top = *std::max_element(x.begin() + static_cast<int64_t>(i), x.begin() + static_cast<int64_t>(i + width));
    if (c.op == OpKind::kSoftmax) return ((n / 128 + 8 + sums) + std::fabs(x[i] - top)) * kUnit * y + 4 * tiny;
    const double scaled = std::fabs(weight[column] + offset) + 1;
    const double squeezed = tiny * (scaled * (std::fabs(x[i]) + 2));
    return (4 + sums) * kUnit * (std::fabs(y) + std::fabs(bias[column])) + squeezed +
           shifted * std::fabs(weight[column]);
  });
}

// u |y| where sums are in float64; on devices (n + 4) u times the sum of absolute values.
Ranges sum_ranges(const Case& c, const Outcome& wanted, double terms, bool on_device) {
  const Outcome sizes = magnitudes(c);
  std::vector<Row> magnitude;
  if (c.op == OpKind::kInterp2d) {  // its weights have both signs, and their absolute values sum to 3 at most
    magnitude.emplace_back(at(tensor::num_elements(wanted.results[0].type.shape)),
                           3 * largest_finite(c.operands[0].values()));
  }
  for (const Tensor& t : sizes.results) magnitude.push_back(t.type.is_state() ? Row{} : t.values());
  return around(wanted, [&](size_t result, size_t i, double y) {
    const double m = magnitude[result][i];
    if (m > kLargest * 0.99) return HUGE_VAL;
    return kUnit * std::fabs(y) + (on_device ? (terms + 4) * kUnit : terms * 0x1p-52) * m + 0x1p-149;
  });
}

// The bound that the case states, for values of the size that it has, taken along with larger ones.
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

// Places of a token's choice that another expert may take as well: where its score is as good within the bound.
Ranges route_ranges(const Case& c, const Outcome& wanted, ComputeMode mode) {
  const ops::Attributes& a = c.attributes;
  Case product{"", OpKind::kLinear, {}, {c.operands[0], c.operands[1]}, {}, {}};
  if (a.get_bool("bias")) product.operands.push_back(c.operands[2]);
  const auto [scores, tolerances] = plain_products(product, mode);
  const auto experts = at(c.operands[1].type.shape[0].factor), k = at(a.get_int("k"));
  const Row correction = a.get_bool("correction") ? c.operands.back().values() : Row(experts, 0.0);
  const std::string& score = a.get_string("score");
  const double grown = growth(c);
  // A score that rounded operands move by d moves a weight by a factor e^d, and so does the sum that it is divided by;
  // weights that are scores are moved by d themselves.
  const auto moved = [&, &by_score = tolerances[0]](size_t i, double v) {
    if (mode == ComputeMode::kF32) return 0.0;
    const auto first = by_score.begin() + static_cast<int64_t>(i / k * experts);
    const double d = *std::max_element(first, first + static_cast<int64_t>(experts));
    const double scale = std::fabs(a.get_float("scale"));
    return 2 * std::expm1(2 * d) * std::fabs(v) + (score == "none" ? d * scale : 0);
  };
  Ranges ranges = around(wanted, [&](size_t result, size_t i, double v) {
    return c.bound.absolute + c.bound.relative * std::fabs(v) * grown + (result == 0 ? moved(i, v) : 0);
  });
  const Row chosen = wanted.results[1].values();
  for (size_t place = 0; place < chosen.size(); ++place) {
    const size_t first = place / k * experts;
    double total = 0;
    for (size_t e = 0; e < experts; ++e) total += std::exp(scores[0][first + e]);
    const auto value = [&](size_t e) {
      const double x = scores[0][first + e];
      const double s = score == "sigmoid" ? 1 / (1 + std::exp(-x)) : score == "softmax" ? std::exp(x) / total : x;
      return s + correction[e];
    };
    const auto own = at(static_cast<int64_t>(chosen[place]));
    Range range = exactly(chosen[place]);
    for (size_t e = 0; e < experts; ++e) {
      const double room = 4e-6 * std::fabs(value(own)) + tolerances[0][first + e] + tolerances[0][first + own];
      if (e != own && std::fabs(value(e) - value(own)) <= room) range = {0, static_cast<double>(experts), false};
    }
    const bool open = range.low < range.high;  // then another expert's weight is as right, here and in what sums them
    for (size_t i = place / k * k; open && mode != ComputeMode::kF32 && i < (place / k + 1) * k; ++i) {
      double most = 0;
      for (size_t j = place / k * k; j < (place / k + 1) * k; ++j)
        most = std::max(most, std::fabs(wanted.results[0].values()[j]));
      ranges[0][i] = widened(ranges[0][i], 0, 4 * most);
    }
    ranges[1].push_back(range);
  }
  return ranges;
}

double sum_of_axes(const Tensor& t) {
  double sum = 0;
  for (const tensor::Dim& dim : t.type.shape) sum += static_cast<double>(dim.factor);
  return sum;
}

// 5 u scale (|a| + |b|), and what is left of the angle.
Ranges rope_ranges(const Case& c, const Outcome& wanted, bool on_device) {
  const Row x = c.operands[0].values();
  const auto width = at(last(c.operands[0]));
  const double scale =
      std::max({std::fabs(c.attributes.get_float("scale")), 1.0, std::fabs(c.attributes.get_float("long_scale"))});
  return around(wanted, [&](size_t, size_t i, double) {
    const auto first = x.begin() + static_cast<int64_t>(i / width * width);
    const double pair = 2 * largest_finite(Row(first, first + static_cast<int64_t>(width)));
    return (on_device ? 16 : 5) * kUnit * scale * pair + 4 * (on_device ? 0x1p-126 : 0x1p-149);
  });
}

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

bool is_unstated(const Case& c) { return c.bound.absolute == 0 && c.bound.relative == 0; }

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

}  // namespace

namespace {

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

}  // namespace

std::vector<double> page_values(const Case& c, const std::vector<std::byte>& page) {
  const tensor::DType dtype = c.state[0].decl.components[0].dtype;
  if (tensor::dtype_info(dtype).is_quantised) return block_values(c.state[0], page);
  const auto count = static_cast<int64_t>(page.size()) / tensor::dtype_info(dtype).block_bytes;
  return Tensor{tensor::Type::tensor(dtype, {count}), page}.values();
}

namespace {

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

// (2 epsilon + 120u + n/8 u) max |v|, epsilon = (Dk + 28) u scale |q| max |k|: sum |q k| by its bound, and the scores'
// spread by twice that. A formula of scores may add what grows with positions: 4u n more.
Ranges attend_ranges(const Case& c, const Outcome& wanted, bool on_device) {
  const Row q = c.operands[0].values();
  const auto width = at(last(c.operands[0]));
  const ops::KeySegments all = ops::key_segments(c.op, c.attributes, c.operands.size()).value();
  double key = 0, value = 0, keys = 0;
  for (size_t s = 0; s < all.segments.size(); ++s) {
    key = std::max(key, largest_row_norm(c.state[s], all.segments[s].key));
    const auto index = at(c.state[s].decl.component_index(all.segments[s].value));
    double longest = 0;
    for (const auto& values : c.state[s].rows[index])
      value = std::max(value, largest_finite(Row(values.begin(), values.end())));
    for (const Sequence& sequence : c.state[s].sequences)
      longest = std::max(longest, static_cast<double>(rows_of(c.state[s].decl, sequence)));
    keys += longest;
  }
  const double positions = c.attributes.get_expression("score").empty() ? 0 : 4 * keys * kUnit;
  const auto out_width = at(last(wanted.results[0]));
  Row tolerance;  // per query and head
  for (size_t first = 0; first < q.size(); first += width) {
    double squares = 0;
    for (size_t i = first; i < first + width; ++i) squares += q[i] * q[i];
    const double epsilon = (static_cast<double>(width) + 28) * kUnit * std::fabs(c.attributes.get_float("scale")) *
                               std::sqrt(squares) * key +
                           positions;
    tolerance.push_back((on_device ? 2 : 1) * (2 * epsilon + (15 + keys / 64) * 8 * kUnit) * value + 0x1p-126);
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

}  // namespace

Limits stated_limits(const Case& c, const Outcome& wanted, ComputeMode mode) {
  const bool products = is_product(c.op);
  if (!products && c.bound.absolute == 0 && c.bound.relative == 0) return {};
  const Values tolerance = products ? product_tolerance(c, mode) : Values{};
  const auto stated = [&](double v) { return c.bound.absolute + c.bound.relative * std::fabs(v); };
  Limits limits;
  limits.results =
      around(wanted, [&](size_t result, size_t i, double v) { return products ? tolerance[result][i] : stated(v); });
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
      if (is_unstated(c)) return {attend_ranges(c, wanted, on_device), {}};
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
  limits.results = around(wanted, [&](size_t, size_t, double v) {
    return (c.bound.absolute + c.bound.relative * std::fabs(v)) * grown + keys;
  });
  for (Range& range : limits.results[0]) {  // a weight too small for float32 is 0, and 0 times infinity NaN
    if (attends && !std::isfinite(range.low)) range = no_number();
  }
  if (c.op == OpKind::kRopeAppend) limits.state = page_limits(c, wanted, grown);
  return limits;
}

}  // namespace firstlight::judge
