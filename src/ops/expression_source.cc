// SPDX-License-Identifier: Apache-2.0
#include "ops/expression_source.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace firstlight::ops {
namespace {

// One operation on operands that are names or literals.
std::string operation(ExprOp op, const std::array<std::string, 3>& args) {
  const auto infix = [&](const char* sign) { return args[0] + " " + sign + " " + args[1]; };
  const auto test = [&](const char* sign) { return infix(sign) + " ? 1.0f : 0.0f"; };
  switch (op) {
    case ExprOp::kAdd:
      return infix("+");
    case ExprOp::kSub:
      return infix("-");
    case ExprOp::kMul:
      return infix("*");
    case ExprOp::kDiv:
      return infix("/");
    case ExprOp::kNeg:
      return "-(" + args[0] + ")";
    case ExprOp::kLt:
      return test("<");
    case ExprOp::kLe:
      return test("<=");
    case ExprOp::kEq:
      return test("==");
    case ExprOp::kWhere:
      return args[0] + " != 0.0f ? " + args[1] + " : " + args[2];
    case ExprOp::kInput:
    case ExprOp::kConstant:
    case ExprOp::kXor:
    case ExprOp::kMod:
      FL_CHECK(false);
    default:
      break;
  }
  std::string text = "fl_" + std::string(expr_op_name(op)) + "(" + args[0];
  for (int i = 1; i < expr_op_arity(op); ++i) text += ", " + args[static_cast<size_t>(i)];
  return text + ")";
}

}  // namespace

std::string float_literal(double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isnan(rounded)) return "FL_NAN";
  if (std::isinf(rounded)) return rounded < 0 ? "-FL_INFINITY" : "FL_INFINITY";
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), rounded);
  std::string text(buffer.data(), end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

ExpressionSource expression_source(const Expression& expression, std::span<const std::string> inputs,
                                   std::string_view prefix, std::string_view indent) {
  ExpressionSource source;
  std::vector<std::string> names;
  for (const ExprTerm& term : expression.terms()) {
    if (term.op == ExprOp::kInput) {
      FL_CHECK(static_cast<size_t>(term.input) < inputs.size());
      names.push_back(inputs[static_cast<size_t>(term.input)]);
    } else if (term.op == ExprOp::kConstant) {
      names.push_back(float_literal(term.constant));
    } else {
      std::array<std::string, 3> args;
      for (size_t k = 0; k < 3; ++k) {
        if (term.args[k] >= 0) args[k] = names[static_cast<size_t>(term.args[k])];
      }
      names.push_back(std::string(prefix) + std::to_string(names.size()));
      source.statements +=
          std::string(indent) + "const float " + names.back() + " = " + operation(term.op, args) + ";\n";
    }
  }
  FL_CHECK(!names.empty());
  source.value = names.back();
  return source;
}

}  // namespace firstlight::ops
