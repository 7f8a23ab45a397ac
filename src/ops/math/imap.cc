// SPDX-License-Identifier: Apache-2.0
// imap: any element-wise formula over integers; hashes of token ids.
#include <cmath>

#include "ops/defs.h"
#include "ops/infer.h"

namespace firstlight::ops {
namespace {

bool is_integer_op(const ExprTerm& term) {
  switch (term.op) {
    case ExprOp::kInput:
    case ExprOp::kAdd:
    case ExprOp::kSub:
    case ExprOp::kMul:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kNeg:
    case ExprOp::kAbs:
    case ExprOp::kSign:
    case ExprOp::kXor:
    case ExprOp::kMod:
    case ExprOp::kLt:
    case ExprOp::kLe:
    case ExprOp::kEq:
    case ExprOp::kWhere:
      return true;
    case ExprOp::kConstant:
      return std::fabs(term.constant) <= 0x1p53 && term.constant == std::trunc(term.constant);
    default:
      return false;
  }
}

Result<Types> infer(const InferInput& input) {
  const Expression& expr = input.attributes.get_expression("expr");
  const std::string count = std::to_string(input.operands.size());
  FL_TRY(want_attribute(!expr.empty() && static_cast<size_t>(expr.num_inputs()) <= input.operands.size(), OpKind::kImap,
                        "expr", expr.to_string(), "a formula in at most " + count + " inputs"));
  for (const ExprTerm& term : expr.terms()) {
    FL_TRY(
        want_attribute(is_integer_op(term), OpKind::kImap, "expr",
                       term.op == ExprOp::kConstant ? exact_decimal(term.constant) : std::string(expr_op_name(term.op)),
                       "operations on integers and integer constants of at most 2^53"));
  }
  const std::string& to = input.attributes.get_string("to");
  FL_TRY(want_attribute(to == "i32" || to == "i64", OpKind::kImap, "to", "\"" + to + "\"", "\"i32\" or \"i64\""));
  tensor::Shape shape;
  for (size_t i = 0; i < input.operands.size(); ++i) {
    const tensor::Type& x = input.operands[i];
    const std::string name = "x" + std::to_string(i);
    const bool is_integer = x.dtype == tensor::DType::kI32 || x.dtype == tensor::DType::kI64;
    FL_TRY(want(is_plain(x) && is_integer, OpKind::kImap, name, x, "i32 or i64, row-major"));
    FL_TRY(want(broadcast_onto(shape, x.shape), OpKind::kImap, name, x,
                "a shape that broadcasts with " + tensor::shape_to_string(shape)));
  }
  const auto dtype = to == "i32" ? tensor::DType::kI32 : tensor::DType::kI64;
  return Types{tensor::Type::tensor(dtype, std::move(shape))};
}

std::vector<ShardRule> shard(const InferInput&) { return {}; }

Cost cost(const InferInput& input, std::span<const tensor::Type> results, const tensor::SymbolValues& values) {
  return elementwise_cost(input, results, values,
                          static_cast<double>(input.attributes.get_expression("expr").terms().size()));
}

}  // namespace

OpDef imap_def() {
  OpDef def;
  def.kind = OpKind::kImap;
  def.name = "imap";
  def.operands = {{"x"}, {"more", OperandDef::Arity::kVariadic}};
  def.attributes = {
      {"expr", AttributeType::kExpression, true, {}, "the formula; x0, x1, … are the operands"},
      {"to", AttributeType::kString, false, std::string("i64"), "type of the result: \"i32\" or \"i64\""},
  };
  def.meaning =
      "y = expr(x0, x1, …) element by element in 64-bit integers: add, sub, mul and neg wrap modulo 2^64; mod(a, b) "
      "has "
      "the sign of b, and is 0 where b is 0; xor is bitwise. Shapes broadcast as in NumPy. An i32 result keeps the low "
      "32 bits.";
  def.rounding = "none";
  def.elementwise_rows = true;
  def.infer = infer;
  def.shard = shard;
  def.cost = cost;
  def.gradient = "none: integers";
  return def;
}

}  // namespace firstlight::ops
