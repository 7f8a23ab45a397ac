// SPDX-License-Identifier: Apache-2.0
// The text form of expressions. Printing names every term that is used twice, and cuts deep chains into named pieces,
// so that the text stays as small as the formula and inside the parser's nesting limit.
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "ops/expression.h"

namespace firstlight::ops {
namespace {

constexpr int kMaxNesting = 256;
constexpr int kMaxPrintedNesting = 64;
constexpr int kMaxInputIndex = 4095;

class Printer {
 public:
  explicit Printer(std::span<const ExprTerm> terms) : terms_(terms), uses_(terms.size(), 0), names_(terms.size(), -1) {}

  std::string print() {
    if (terms_.empty()) return "()";
    for (const ExprTerm& term : terms_) {
      for (const int32_t arg : term.args) {
        if (arg >= 0) ++uses_[static_cast<size_t>(arg)];
      }
    }
    std::vector<int> depth(terms_.size(), 0);
    std::string definitions;
    const size_t last = terms_.size() - 1;
    for (size_t i = 0; i < last; ++i) {
      if (expr_op_arity(terms_[i].op) == 0 || uses_[i] == 0) continue;
      for (const int32_t arg : terms_[i].args) {
        if (arg >= 0) depth[i] = std::max(depth[i], depth[static_cast<size_t>(arg)] + 1);
      }
      if (uses_[i] < 2 && depth[i] < kMaxPrintedNesting) continue;
      std::string text = operation(i);
      names_[i] = num_names_++;
      depth[i] = 0;
      definitions += name(i) + " = " + text + "; ";
    }
    const std::string value = term(last);
    return definitions.empty() ? value : "(" + definitions + value + ")";
  }

 private:
  std::string name(size_t i) const { return "t" + std::to_string(names_[i]); }

  std::string operation(size_t i) const {
    const ExprTerm& t = terms_[i];
    std::string text(expr_op_name(t.op));
    for (int k = 0; k < expr_op_arity(t.op); ++k) {
      text += (k == 0 ? "(" : ", ") + term(static_cast<size_t>(t.args[k]));
    }
    return text + ")";
  }

  std::string term(size_t i) const {
    if (names_[i] >= 0) return name(i);
    if (terms_[i].op == ExprOp::kInput) return "x" + std::to_string(terms_[i].input);
    if (terms_[i].op == ExprOp::kConstant) return exact_decimal(terms_[i].constant);
    return operation(i);
  }

  std::span<const ExprTerm> terms_;
  std::vector<int> uses_;
  std::vector<int> names_;
  int num_names_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Expression> parse() {
    Expression expression;
    int32_t value = -1;
    if (!take('(')) {
      value = FL_TRY(term(expression, 0));
    } else if (take(')')) {
      return expression;
    } else {
      value = FL_TRY(body(expression));
    }
    expression.set_result(value);
    return expression;
  }

  std::string_view rest() const { return text_.substr(at_); }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  Status wanted(std::string_view what) const {
    return invalid_data("expression: at offset " + std::to_string(at_) + ": found " +
                        (at_ < text_.size() ? "'" + std::string(text_.substr(at_, 12)) + "'" : "the end") +
                        ", wanted " + std::string(what));
  }

 private:
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view word() {
    skip_space();
    size_t end = at_;
    while (end < text_.size() &&
           ((text_[end] >= 'a' && text_[end] <= 'z') || (text_[end] >= '0' && text_[end] <= '9'))) {
      ++end;
    }
    return text_.substr(at_, end - at_);
  }

  // The inside of "(t0 = …; t1 = …; value)", after the parenthesis.
  Result<int32_t> body(Expression& expression) {
    for (;;) {
      skip_space();
      const size_t start = at_;
      const std::string_view name = word();
      at_ += name.size();
      if (name.size() < 2 || name[0] != 't' || !take('=')) {
        at_ = start;
        break;
      }
      if (names_.count(name) != 0) return wanted("a name that is not taken, '" + std::string(name) + "' is");
      const int32_t value = FL_TRY(term(expression, 0));
      names_[name] = value;
      if (!take(';')) return wanted("';'");
    }
    const int32_t value = FL_TRY(term(expression, 0));
    if (!take(')')) return wanted("')'");
    return value;
  }

  Result<int32_t> term(Expression& expression, int nesting) {
    if (nesting > kMaxNesting) return wanted("a nesting of at most " + std::to_string(kMaxNesting));
    if (!expression.within_limits()) return wanted("at most 4096 terms");
    const std::string_view name = word();
    if (names_.count(name) != 0) {
      at_ += name.size();
      return names_[name];
    }
    if (name.size() > 1 && name[0] == 'x' && name[1] >= '0' && name[1] <= '9') return input(expression, name);
    const auto op = op_named(name);
    if (op < 0) return constant(expression);
    at_ += name.size();
    return operation(expression, static_cast<ExprOp>(op), nesting);
  }

  static int op_named(std::string_view name) {
    for (int i = static_cast<int>(ExprOp::kAdd); i <= static_cast<int>(ExprOp::kWhere); ++i) {
      if (expr_op_name(static_cast<ExprOp>(i)) == name) return i;
    }
    return -1;
  }

  Result<int32_t> input(Expression& expression, std::string_view name) {
    int index = 0;
    const auto end = std::from_chars(name.data() + 1, name.data() + name.size(), index);
    if (end.ec != std::errc() || end.ptr != name.data() + name.size() || index > kMaxInputIndex) {
      return wanted("an input x0 to x" + std::to_string(kMaxInputIndex));
    }
    at_ += name.size();
    return expression.input(index);
  }

  Result<int32_t> constant(Expression& expression) {
    skip_space();
    const std::string_view number = text_.substr(at_);
    double value = 0;
    const auto end = std::from_chars(number.data(), number.data() + number.size(), value);
    if (end.ec == std::errc::invalid_argument) return wanted("a number, an input or an operation");
    if (end.ec != std::errc()) return wanted("a number in the range of float64");
    at_ += static_cast<size_t>(end.ptr - number.data());
    // from_chars reads "nan(...)" and "infinity" too; both are fine.
    return expression.constant(value != value ? std::numeric_limits<double>::quiet_NaN() : value);
  }

  Result<int32_t> operation(Expression& expression, ExprOp op, int nesting) {
    int32_t args[3] = {-1, -1, -1};
    for (int i = 0; i < expr_op_arity(op); ++i) {
      if (!take(i == 0 ? '(' : ',')) return wanted(i == 0 ? "'('" : "',' and a further operand");
      args[i] = FL_TRY(term(expression, nesting + 1));
    }
    if (!take(')')) return wanted("')'");
    return expression.apply(op, args[0], args[1], args[2]);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::map<std::string_view, int32_t> names_;
};

}  // namespace

std::string Expression::to_string() const { return Printer(terms_).print(); }

Result<Expression> Expression::parse_prefix(std::string_view& text) {
  Parser parser(text);
  Expression expression = FL_TRY(parser.parse());
  text = parser.rest();
  return expression;
}

Result<Expression> Expression::parse(std::string_view text) {
  Parser parser(text);
  Expression expression = FL_TRY(parser.parse());
  parser.skip_space();
  if (!parser.rest().empty()) return parser.wanted("the end");
  return expression;
}

}  // namespace firstlight::ops
