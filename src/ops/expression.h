// SPDX-License-Identifier: Apache-2.0
// Element-wise formulas as data: what `map` computes, what a spec's traced functions become, what fused kernels apply
// as their epilogue. A formula is a list of terms in evaluation order (an operand always stands before its user); the
// last term is the value. Text form, printed and parsed back: "mul(x0, sigmoid(x0))", constants in shortest exact
// decimal.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::ops {

enum class ExprOp : uint8_t {
  kInput,     // x<index>
  kConstant,  // a float64 literal
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kPow,
  kNeg,
  kAbs,
  kSign,
  kFloor,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kSqrt,
  kRsqrt,
  kTanh,
  kSigmoid,
  kErf,
  kSin,
  kCos,
  kXor,    // bitwise, of integers: imap alone has it
  kMod,    // the remainder with the sign of b, of integers: imap alone has it
  kLt,     // 1 when a < b, else 0
  kLe,     // 1 when a <= b, else 0
  kEq,     // 1 when a == b, else 0
  kWhere,  // where(c, a, b): a when c != 0, else b
};

std::string_view expr_op_name(ExprOp op);  // "mul"
int expr_op_arity(ExprOp op);              // 0 for kInput and kConstant, else 1 to 3

struct ExprTerm {
  ExprOp op = ExprOp::kConstant;
  int32_t args[3] = {-1, -1, -1};  // indices of earlier terms
  int32_t input = -1;              // kInput
  double constant = 0;             // kConstant
  // Constants are compared bit by bit: NaN equals itself, 0 and -0 differ.
  friend bool operator==(const ExprTerm& a, const ExprTerm& b) {
    return a.op == b.op && a.args[0] == b.args[0] && a.args[1] == b.args[1] && a.args[2] == b.args[2] &&
           a.input == b.input && std::bit_cast<uint64_t>(a.constant) == std::bit_cast<uint64_t>(b.constant);
  }
};

// Shortest decimal that reads back as the same float64, always with '.', 'e', "inf" or "nan" in it.
std::string exact_decimal(double value);

// The value of one term's operation in float64; NaN for kXor and kMod.
double evaluate_op(ExprOp op, double a, double b = 0, double c = 0);

class Expression {
 public:
  Expression() = default;

  // Builders: each appends a term (equal terms are shared) and returns its index; the last one added is the value
  // unless set_result says otherwise.
  int32_t input(int32_t index);
  int32_t constant(double value);
  int32_t apply(ExprOp op, int32_t a, int32_t b = -1, int32_t c = -1);
  // Copies the terms of `other`, with its input i replaced by term `inputs[i]` of this; returns the index of its value.
  int32_t inlined(const Expression& other, std::span<const int32_t> inputs);
  // Drops unused terms and moves `result` to the end.
  void set_result(int32_t result);

  bool empty() const { return terms_.empty(); }
  std::span<const ExprTerm> terms() const { return terms_; }
  int num_inputs() const;        // highest input index + 1
  bool is_for_integers() const;  // holds an operation that imap alone has
  bool within_limits() const;    // at most 4096 terms: what parse accepts

  std::string to_string() const;
  // Errors: kInvalidData with the place; at most 4096 terms, nesting at most 256.
  static Result<Expression> parse(std::string_view text);
  // The same from the front of `text`, which is moved past what was read.
  static Result<Expression> parse_prefix(std::string_view& text);

  // The value in float64 for one element: the judge of every faster form.
  double evaluate(std::span<const double> inputs) const;

  friend bool operator==(const Expression&, const Expression&) = default;

 private:
  std::vector<ExprTerm> terms_;
};

}  // namespace firstlight::ops
