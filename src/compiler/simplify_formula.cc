// SPDX-License-Identifier: Apache-2.0
#include "compiler/simplify_formula.h"

#include <algorithm>
#include <vector>

namespace firstlight::compiler {
namespace {

using ops::Expression;
using ops::ExprOp;
using ops::ExprTerm;

class Simplifier {
 public:
  Expression run(const Expression& from) {
    std::vector<int32_t> mapped;
    for (const ExprTerm& term : from.terms()) {
      if (term.op == ExprOp::kInput) {
        mapped.push_back(made_.input(term.input));
      } else if (term.op == ExprOp::kConstant) {
        mapped.push_back(made_.constant(term.constant));
      } else {
        const auto arg = [&](int i) { return term.args[i] < 0 ? -1 : mapped[static_cast<size_t>(term.args[i])]; };
        mapped.push_back(apply(term.op, arg(0), arg(1), arg(2)));
      }
    }
    made_.set_result(mapped.back());
    return std::move(made_);
  }

 private:
  const double* number(int32_t term) const {
    if (term < 0) return nullptr;
    const ExprTerm& t = made_.terms()[static_cast<size_t>(term)];
    return t.op == ExprOp::kConstant ? &t.constant : nullptr;
  }
  bool is(int32_t term, double value) const {
    const double* found = number(term);
    return found != nullptr && *found == value;
  }

  int32_t apply(ExprOp op, int32_t a, int32_t b, int32_t c) {
    const int arity = ops::expr_op_arity(op);
    const int32_t args[3] = {a, b, c};
    if (std::all_of(args, args + arity, [&](int32_t arg) { return number(arg) != nullptr; })) {
      const auto value = [&](int i) { return i < arity ? *number(args[i]) : 0.0; };
      return made_.constant(ops::evaluate_op(op, value(0), value(1), value(2)));
    }
    if (op == ExprOp::kAdd && is(a, 0)) return b;
    if ((op == ExprOp::kAdd || op == ExprOp::kSub) && is(b, 0)) return a;
    if (op == ExprOp::kMul && is(a, 1)) return b;
    if ((op == ExprOp::kMul || op == ExprOp::kDiv || op == ExprOp::kPow) && is(b, 1)) return a;
    if (op == ExprOp::kWhere && number(a) != nullptr) return *number(a) != 0 ? b : c;
    if (op == ExprOp::kNeg) {
      const ExprTerm& inner = made_.terms()[static_cast<size_t>(a)];
      if (inner.op == ExprOp::kNeg) return inner.args[0];
    }
    return made_.apply(op, a, b, c);
  }

  Expression made_;
};

}  // namespace

Expression simplified(const Expression& formula) { return Simplifier().run(formula); }

}  // namespace firstlight::compiler
