// SPDX-License-Identifier: Apache-2.0
#include "judge/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace firstlight::judge {
namespace {

using ops::ExprOp;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kUnit = 0x1p-24;

bool is_point(const Range& r) { return !r.may_be_nan && r.low == r.high; }
bool is_nan(const Range& r) { return std::isnan(r.low); }
bool has(const Range& r, double value) { return r.low <= value && value <= r.high; }

// Units of roundoff by which one operation may be off.
double units(ExprOp op, bool on_device) {
  switch (op) {
    case ExprOp::kInput:
    case ExprOp::kConstant:
    case ExprOp::kAdd:
    case ExprOp::kSub:
    case ExprOp::kMul:
      return 1;
    case ExprOp::kDiv:
    case ExprOp::kSqrt:
      return on_device ? 6 : 1;
    case ExprOp::kRsqrt:
      return on_device ? 8 : 2;
    case ExprOp::kExp:
    case ExprOp::kLog:
    case ExprOp::kLog1p:
    case ExprOp::kTanh:
    case ExprOp::kSigmoid:
      return on_device ? 16 : 8;
    case ExprOp::kExpm1:
    case ExprOp::kSin:
    case ExprOp::kCos:
      return on_device ? 8 : 4;
    case ExprOp::kErf:
    case ExprOp::kPow:
      return on_device ? 32 : 4;
    default:
      return 0;
  }
}

// 1, 0 or either.
Range truth(bool can_hold, bool can_fail) { return {can_fail ? 0.0 : 1.0, can_hold ? 1.0 : 0.0, false}; }

Range comparison(ExprOp op, const Range& a, const Range& b) {
  if (is_nan(a) || is_nan(b)) return truth(false, true);
  const bool nan = a.may_be_nan || b.may_be_nan;
  if (op == ExprOp::kLt) return truth(a.low < b.high, nan || a.high >= b.low);
  if (op == ExprOp::kLe) return truth(a.low <= b.high, nan || a.high > b.low);
  return truth(a.low <= b.high && b.low <= a.high, nan || !(is_point(a) && is_point(b) && a.low == b.low));
}

Range chosen(const Range& condition, const Range& a, const Range& b) {
  if (is_nan(condition)) return a;
  if (is_point(condition)) return condition.low != 0 ? a : b;
  return condition.may_be_nan || has(condition, 0) ? joined(a, b) : a;
}

// The smallest range over the corners; NaN at a corner makes NaN possible.
Range over_corners(ExprOp op, const Range& a, const Range& b, int arity) {
  Range r{kInf, -kInf, a.may_be_nan || (arity > 1 && b.may_be_nan)};
  for (const double x : {a.low, a.high}) {
    for (const double y : {b.low, b.high}) {
      const double value = ops::evaluate_op(op, x, y);
      if (std::isnan(value)) {
        r.may_be_nan = true;
      } else {
        r.low = std::min(r.low, value);
        r.high = std::max(r.high, value);
      }
    }
  }
  return r.low > r.high ? Range{-kInf, kInf, true} : r;
}

Range applied(ExprOp op, const Range& a, const Range& b, int arity) {
  const bool points = is_point(a) && (arity < 2 || is_point(b));
  if (points || is_nan(a) || (arity > 1 && is_nan(b))) return exactly(ops::evaluate_op(op, a.low, b.low));
  Range r = over_corners(op, a, b, arity);
  switch (op) {
    case ExprOp::kAbs:
      if (has(a, 0)) r.low = 0;
      break;
    case ExprOp::kSin:
    case ExprOp::kCos: {
      const double middle = (a.low + a.high) / 2, half = (a.high - a.low) / 2;
      if (!std::isfinite(half)) return {-1, 1, true};
      const double value = ops::evaluate_op(op, middle);
      return {std::max(-1.0, value - half), std::min(1.0, value + half), a.may_be_nan};
    }
    case ExprOp::kMul:
      if ((has(a, 0) && (std::isinf(b.low) || std::isinf(b.high))) ||
          (has(b, 0) && (std::isinf(a.low) || std::isinf(a.high)))) {
        r.may_be_nan = true;
      }
      break;
    case ExprOp::kDiv:
      if (has(b, 0)) return {-kInf, kInf, has(a, 0) || a.may_be_nan || b.may_be_nan};
      break;
    case ExprOp::kSqrt:
    case ExprOp::kRsqrt:
    case ExprOp::kLog:
      if (a.low < 0 && a.high >= 0) r = joined(r, exactly(ops::evaluate_op(op, 0)));
      break;
    case ExprOp::kPow:
      if (a.low <= 0) return anything();
      break;
    default:
      break;
  }
  return r;
}

}  // namespace

bool Range::holds(double value) const {
  if (!is_finite) return !std::isfinite(value);
  if (std::isnan(value)) return may_be_nan || std::isnan(low);
  return low <= value && value <= high;
}

Range exactly(double value) { return {value, value, false}; }
Range anything() { return {-kInf, kInf, true}; }

Range no_number() { return {-kInf, kInf, true, false}; }

Range joined(const Range& a, const Range& b) {
  if (is_nan(a) && is_nan(b)) return a;
  if (is_nan(a)) return {b.low, b.high, true};
  if (is_nan(b)) return {a.low, a.high, true};
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan};
}

Range widened(Range range, double relative, double absolute) {
  if (is_nan(range)) return range;
  if (std::isfinite(range.low)) range.low -= relative * std::fabs(range.low) + absolute;
  if (std::isfinite(range.high)) range.high += relative * std::fabs(range.high) + absolute;
  constexpr double kEnd = kLargest * (1 - 0x1p-23);
  if (range.high > kEnd) range.high = kInf;
  if (range.low < -kEnd) range.low = -kInf;
  if (std::isfinite(range.high) || range.low != kInf) range.low = std::min(range.low, kLargest);
  if (std::isfinite(range.low) || range.high != -kInf) range.high = std::max(range.high, -kLargest);
  return range;
}

Range range_of(const ops::Expression& expression, std::span<const Range> inputs, bool on_device) {
  const double tiny = on_device ? 0x1p-126 : 0x1p-149;
  std::vector<Range> values;
  for (const ops::ExprTerm& term : expression.terms()) {
    const auto arg = [&](int i) { return term.args[i] < 0 ? exactly(0) : values[static_cast<size_t>(term.args[i])]; };
    Range value;
    switch (term.op) {
      case ExprOp::kInput:
        values.push_back(inputs[static_cast<size_t>(term.input)]);
        continue;
      case ExprOp::kConstant:
        value = exactly(term.constant);
        if (static_cast<double>(static_cast<float>(term.constant)) == term.constant) {
          values.push_back(value);
          continue;
        }
        break;
      case ExprOp::kLt:
      case ExprOp::kLe:
      case ExprOp::kEq:
        value = comparison(term.op, arg(0), arg(1));
        break;
      case ExprOp::kWhere:
        value = chosen(arg(0), arg(1), arg(2));
        break;
      default:
        value = applied(term.op, arg(0), arg(1), ops::expr_op_arity(term.op));
    }
    const double off = units(term.op, on_device);
    const bool is_exact = off == 0 || (std::isinf(value.low) && value.low == value.high);
    // 1 / (1 + e^-x) ends where e^-x does, at one over the largest number.
    const double floor = term.op == ExprOp::kSigmoid ? 1.01 / kLargest : 4 * tiny;
    Range wider = is_exact ? value : widened(value, off * kUnit, floor);
    if (value.low >= 0) wider.low = std::max(wider.low, 0.0);  // rounding keeps the sign
    if (value.high <= 0) wider.high = std::min(wider.high, 0.0);
    values.push_back(wider);
  }
  return values.back();
}

}  // namespace firstlight::judge
