// SPDX-License-Identifier: Apache-2.0
// Bounds of operators without a state.
#include <algorithm>

#include "base/check.h"
#include "judge/bound_parts.h"
#include "judge/products.h"

namespace firstlight::judge {
namespace {

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

}  // namespace

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

}  // namespace firstlight::judge
