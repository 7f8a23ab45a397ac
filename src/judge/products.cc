// SPDX-License-Identifier: Apache-2.0
#include "judge/products.h"

#include <algorithm>
#include <cmath>

#include "ops/expression.h"
#include "ops/infer.h"

namespace firstlight::judge {
namespace {

using ops::OpKind;
using Row = std::vector<double>;

int64_t last(const Tensor& t) { return t.type.shape.empty() ? 1 : t.type.shape.back().factor; }
int64_t dim(const Tensor& t, size_t axis) { return t.type.shape[axis].factor; }
size_t at(int64_t i) { return static_cast<size_t>(i); }

Row row_of(const Row& values, int64_t row, int64_t width) {
  return Row(values.begin() + row * width, values.begin() + (row + 1) * width);
}

// Applies `f` to each row of the first operand.
template <typename F>
Values by_rows(const Case& c, F&& f) {
  const Row x = c.operands[0].values();
  const int64_t width = last(c.operands[0]);
  Values out(1);
  for (int64_t r = 0; r * width < static_cast<int64_t>(x.size()); ++r) {
    const Row y = f(row_of(x, r, width));
    out[0].insert(out[0].end(), y.begin(), y.end());
  }
  return out;
}

Row rms_norm_row(const Row& x, const Row& weight, double eps, double offset) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double r = std::sqrt(squares / static_cast<double>(x.size()) + eps);
  Row y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] / r * (weight.empty() ? 1 : weight[i] + offset));
  return y;
}

// One product: rows, weight, bias, and how far off each element may be.
struct Product {
  Row values;
  Row tolerance;
  int64_t width = 0;
};

// The largest difference that rounding the activations of one row against one weight row can make in a mode.
double rounding(const double* x, const double* w, int64_t k, catalog::ComputeMode mode) {
  double sum = 0;
  double blocks = 0;
  double sizes = 0;
  for (int64_t first = 0; first < k; first += 32) {
    double top = 0;
    double weights = 0;
    for (int64_t i = first; i < std::min(k, first + 32); ++i) {
      sum += std::fabs(x[i] * w[i]);
      top = std::max(top, std::fabs(x[i]));
      weights += std::fabs(w[i]);
      sizes += std::fabs(w[i]) + std::fabs(x[i]);
    }
    blocks += top < 1.01e-36 ? top * weights : top / 254 * 1.01 * weights;  // such a block counts as zero
  }
  const auto count = static_cast<double>(k);
  const double sums = (count + 16) * std::ldexp(sum, -24) + count * 0x1p-149;
  if (mode == catalog::ComputeMode::kF32) return sums;
  // bf16's products may flush subnormal numbers; where int8 has no form for a weight, bf16 or f32 computes.
  const double flushed = 0x1p-126 * (sizes + count);
  const double rounded = std::ldexp(sum, -7) * 1.01 + flushed;
  return sums + (mode == catalog::ComputeMode::kBf16 ? rounded : std::max(blocks, rounded) + flushed);
}

Product product(const Row& x, int64_t k, const Row& w, const Row& bias, catalog::ComputeMode mode) {
  Product p;
  p.width = static_cast<int64_t>(w.size()) / k;
  for (int64_t t = 0; t * k < static_cast<int64_t>(x.size()); ++t) {
    for (int64_t r = 0; r < p.width; ++r) {
      double sum = bias.empty() ? 0 : bias[at(r)];
      for (int64_t i = 0; i < k; ++i) sum += x[at(t * k + i)] * w[at(r * k + i)];
      p.values.push_back(sum);
      p.tolerance.push_back(rounding(x.data() + t * k, w.data() + r * k, k, mode) + std::ldexp(std::fabs(sum), -22));
    }
  }
  return p;
}

std::vector<Product> fused_products(const Case& c, catalog::ComputeMode mode) {
  const ops::FusedLinearOperands places = ops::fused_linear_operands(c.attributes);
  const int64_t k = last(c.operands[0]);
  Row rows = c.operands[0].values();
  if (c.attributes.get_string("norm") == "rms") {
    const Row weight = places.norm_weight >= 0 ? c.operands[at(places.norm_weight)].values() : Row{};
    const double eps = c.attributes.get_float("norm_eps");
    rows = by_rows(
        c, [&](const Row& x) { return rms_norm_row(x, weight, eps, c.attributes.get_float("norm_offset")); })[0];
  }
  std::vector<Product> products;
  for (int i = 0; i < places.num_weights; ++i) {
    const int bias = places.biases[at(i)];
    products.push_back(product(rows, k, c.operands[at(places.first_weight + i)].values(),
                               bias < 0 ? Row{} : c.operands[at(bias)].values(), mode));
  }
  return products;
}

// Values and tolerances of a case's results: what the products' tolerances make of the epilogue at its corners.
std::pair<Values, Values> fused(const Case& c, catalog::ComputeMode mode) {
  const ops::FusedLinearOperands places = ops::fused_linear_operands(c.attributes);
  const std::vector<Product> products = fused_products(c, mode);
  Values values;
  Values tolerances;
  if (c.attributes.get_expressions("epilogue").empty()) {
    for (const Product& p : products) {
      values.push_back(p.values);
      tolerances.push_back(p.tolerance);
    }
    return {values, tolerances};
  }
  const auto n = products.size();
  std::vector<Row> extras;
  for (int i = 0; i < places.num_extras; ++i) extras.push_back(c.operands[at(places.first_extra + i)].values());
  for (const ops::Expression& e : c.attributes.get_expressions("epilogue")) {
    values.emplace_back();
    tolerances.emplace_back();
    for (size_t i = 0; i < products[0].values.size(); ++i) {
      const auto evaluate = [&](size_t corner) {
        Row inputs;
        for (size_t w = 0; w < n; ++w) {
          const double shift = corner == 0 ? 0 : (corner - 1) >> w & 1 ? 1 : -1;
          inputs.push_back(products[w].values[i] + shift * products[w].tolerance[i]);
        }
        for (const Row& extra : extras) {
          inputs.push_back(extra[extra.size() == products[0].values.size() ? i : i % at(products[0].width)]);
        }
        return e.evaluate(inputs);
      };
      const double centre = evaluate(0);
      double worst = 0;
      for (size_t corner = 1; corner <= size_t{1} << n; ++corner)
        worst = std::max(worst, std::fabs(evaluate(corner) - centre));
      values.back().push_back(centre);
      tolerances.back().push_back(1.5 * worst + 1e-6 + 4e-6 * std::fabs(centre));
    }
  }
  return {values, tolerances};
}

std::pair<Values, Values> batched(const Case& c, catalog::ComputeMode mode) {
  const Row x = c.operands[0].values();
  const Row w = c.operands[1].values();
  const int64_t tokens = dim(c.operands[0], 0);
  const int64_t heads = dim(c.operands[0], 1);
  const int64_t a = dim(c.operands[0], 2);
  const int64_t b = dim(c.operands[1], 1);
  Values values(1);
  Values tolerances(1);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const Product p = product(row_of(x, t * heads + h, a), a, row_of(w, h, a * b), {}, mode);
      values[0].insert(values[0].end(), p.values.begin(), p.values.end());
      tolerances[0].insert(tolerances[0].end(), p.tolerance.begin(), p.tolerance.end());
    }
  }
  return {values, tolerances};
}

}  // namespace

std::pair<Values, Values> products(const Case& c, catalog::ComputeMode mode) {
  if (c.op == OpKind::kFusedLinear) return fused(c, mode);
  if (c.op == OpKind::kBatchedLinear) return batched(c, mode);
  const Row bias = c.operands.size() > 2 ? c.operands[2].values() : Row{};
  const Product p = product(c.operands[0].values(), last(c.operands[0]), c.operands[1].values(), bias, mode);
  return {{p.values}, {p.tolerance}};
}

std::pair<Values, Values> plain_products(const Case& c, catalog::ComputeMode mode) {
  if (c.op != OpKind::kFusedLinear) return products(c, mode);
  Values values, tolerances;
  for (Product& p : fused_products(c, mode)) {
    values.push_back(std::move(p.values));
    tolerances.push_back(std::move(p.tolerance));
  }
  return {values, tolerances};
}

Values product_tolerance(const Case& c, catalog::ComputeMode mode) { return products(c, mode).second; }

}  // namespace firstlight::judge
