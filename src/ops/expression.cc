// SPDX-License-Identifier: Apache-2.0
#include "ops/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace firstlight::ops {
namespace {

constexpr size_t kMaxTerms = 4096;

struct OpInfo {
  std::string_view name;
  int arity;
};
constexpr std::array<OpInfo, 30> kOps = {
    {{"input", 0}, {"constant", 0}, {"add", 2},   {"sub", 2},  {"mul", 2},     {"div", 2},  {"min", 2},   {"max", 2},
     {"pow", 2},   {"neg", 1},      {"abs", 1},   {"sign", 1}, {"floor", 1},   {"exp", 1},  {"expm1", 1}, {"log", 1},
     {"log1p", 1}, {"sqrt", 1},     {"rsqrt", 1}, {"tanh", 1}, {"sigmoid", 1}, {"erf", 1},  {"sin", 1},   {"cos", 1},
     {"xor", 2},   {"mod", 2},      {"lt", 2},    {"le", 2},   {"eq", 2},      {"where", 3}}};
static_assert(kOps.size() == static_cast<size_t>(ExprOp::kWhere) + 1);

double pick(bool first, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return first ? a : b;
}

}  // namespace

std::string_view expr_op_name(ExprOp op) { return kOps[static_cast<size_t>(op)].name; }
int expr_op_arity(ExprOp op) { return kOps[static_cast<size_t>(op)].arity; }

std::string exact_decimal(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

double evaluate_op(ExprOp op, double a, double b, double c) {
  switch (op) {
    case ExprOp::kInput:
    case ExprOp::kConstant:
      break;
    case ExprOp::kAdd:
      return a + b;
    case ExprOp::kSub:
      return a - b;
    case ExprOp::kMul:
      return a * b;
    case ExprOp::kDiv:
      return a / b;
    case ExprOp::kMin:
      return pick(a < b, a, b);
    case ExprOp::kMax:
      return pick(a > b, a, b);
    case ExprOp::kPow:
      return std::pow(a, b);
    case ExprOp::kNeg:
      return -a;
    case ExprOp::kAbs:
      return std::fabs(a);
    case ExprOp::kSign:
      return a > 0 ? 1.0 : a < 0 ? -1.0 : a;
    case ExprOp::kFloor:
      return std::floor(a);
    case ExprOp::kExp:
      return std::exp(a);
    case ExprOp::kExpm1:
      return std::expm1(a);
    case ExprOp::kLog:
      return std::log(a);
    case ExprOp::kLog1p:
      return std::log1p(a);
    case ExprOp::kSqrt:
      return std::sqrt(a);
    case ExprOp::kRsqrt:
      return 1.0 / std::sqrt(a);
    case ExprOp::kTanh:
      return std::tanh(a);
    case ExprOp::kSigmoid:
      return 1.0 / (1.0 + std::exp(-a));
    case ExprOp::kErf:
      return std::erf(a);
    case ExprOp::kSin:
      return std::sin(a);
    case ExprOp::kCos:
      return std::cos(a);
    case ExprOp::kXor:
    case ExprOp::kMod:
      return std::numeric_limits<double>::quiet_NaN();  // imap evaluates formulas of integers
    case ExprOp::kLt:
      return a < b ? 1.0 : 0.0;
    case ExprOp::kLe:
      return a <= b ? 1.0 : 0.0;
    case ExprOp::kEq:
      return a == b ? 1.0 : 0.0;
    case ExprOp::kWhere:
      return a != 0 ? b : c;
  }
  FL_CHECK(false);
}

namespace {
int32_t add_term(std::vector<ExprTerm>& terms, const ExprTerm& term) {
  const auto found = std::find(terms.begin(), terms.end(), term);
  if (found != terms.end()) return static_cast<int32_t>(found - terms.begin());
  terms.push_back(term);
  return static_cast<int32_t>(terms.size()) - 1;
}
}  // namespace

int32_t Expression::input(int32_t index) {
  FL_CHECK(index >= 0);
  ExprTerm term;
  term.op = ExprOp::kInput;
  term.input = index;
  return add_term(terms_, term);
}

int32_t Expression::constant(double value) {
  ExprTerm term;
  term.constant = value;
  return add_term(terms_, term);
}

int32_t Expression::apply(ExprOp op, int32_t a, int32_t b, int32_t c) {
  const int arity = expr_op_arity(op);
  FL_CHECK(arity >= 1);
  ExprTerm term;
  term.op = op;
  const int32_t args[3] = {a, b, c};
  for (int i = 0; i < arity; ++i) {
    FL_CHECK(args[i] >= 0 && static_cast<size_t>(args[i]) < terms_.size());
    term.args[i] = args[i];
  }
  return add_term(terms_, term);
}

int32_t Expression::inlined(const Expression& other, std::span<const int32_t> inputs) {
  std::vector<int32_t> mapped;
  mapped.reserve(other.terms_.size());
  for (const ExprTerm& term : other.terms_) {
    if (term.op == ExprOp::kInput) {
      FL_CHECK(static_cast<size_t>(term.input) < inputs.size());
      mapped.push_back(inputs[static_cast<size_t>(term.input)]);
    } else if (term.op == ExprOp::kConstant) {
      mapped.push_back(constant(term.constant));
    } else {
      const auto arg = [&](int i) { return term.args[i] < 0 ? -1 : mapped[static_cast<size_t>(term.args[i])]; };
      mapped.push_back(apply(term.op, arg(0), arg(1), arg(2)));
    }
  }
  FL_CHECK(!mapped.empty());
  return mapped.back();
}

void Expression::set_result(int32_t result) {
  FL_CHECK(result >= 0 && static_cast<size_t>(result) < terms_.size());
  std::vector<bool> used(terms_.size(), false);
  used[static_cast<size_t>(result)] = true;
  for (auto i = static_cast<size_t>(result) + 1; i-- > 0;) {
    if (!used[i]) continue;
    for (const int32_t arg : terms_[i].args) {
      if (arg >= 0) used[static_cast<size_t>(arg)] = true;
    }
  }
  std::vector<int32_t> moved(terms_.size(), -1);
  std::vector<ExprTerm> kept;
  for (size_t i = 0; i <= static_cast<size_t>(result); ++i) {
    if (!used[i]) continue;
    ExprTerm term = terms_[i];
    for (int32_t& arg : term.args) {
      if (arg >= 0) arg = moved[static_cast<size_t>(arg)];
    }
    moved[i] = static_cast<int32_t>(kept.size());
    kept.push_back(term);
  }
  terms_ = std::move(kept);
}

int Expression::num_inputs() const {
  int count = 0;
  for (const ExprTerm& term : terms_) count = std::max(count, term.input + 1);
  return count;
}

double Expression::evaluate(std::span<const double> inputs) const {
  FL_CHECK(!terms_.empty());
  std::vector<double> values(terms_.size());
  for (size_t i = 0; i < terms_.size(); ++i) {
    const ExprTerm& term = terms_[i];
    if (term.op == ExprOp::kInput) {
      values[i] = inputs[static_cast<size_t>(term.input)];
    } else if (term.op == ExprOp::kConstant) {
      values[i] = term.constant;
    } else {
      const auto arg = [&](int k) { return term.args[k] < 0 ? 0.0 : values[static_cast<size_t>(term.args[k])]; };
      values[i] = evaluate_op(term.op, arg(0), arg(1), arg(2));
    }
  }
  return values.back();
}

bool Expression::is_for_integers() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const ExprTerm& term) { return term.op == ExprOp::kXor || term.op == ExprOp::kMod; });
}

bool Expression::within_limits() const { return terms_.size() <= kMaxTerms; }

}  // namespace firstlight::ops
