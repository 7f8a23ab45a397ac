// SPDX-License-Identifier: Apache-2.0
#include "compiler/formula_algebra.h"

#include <bit>
#include <cmath>
#include <tuple>

#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using ops::ExprOp;
using Parts = std::vector<std::pair<TermId, double>>;

// Sorted, one entry per term, nothing that weighs nothing.
Parts collected(const std::map<TermId, double>& weights) {
  Parts parts;
  for (const auto& [term, weight] : weights) {
    if (weight != 0) parts.emplace_back(term, weight);
  }
  return parts;
}

bool is_whole(double value) { return value == std::floor(value); }

}  // namespace

bool FormulaAlgebra::Less::operator()(const Term& a, const Term& b) const {
  const auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
  const auto key = [&](const Term& t) { return std::tuple(t.kind, t.leaf, t.op, bits(t.number), t.parts.size()); };
  if (key(a) != key(b)) return key(a) < key(b);
  for (size_t i = 0; i < a.parts.size(); ++i) {
    const auto x = std::pair(a.parts[i].first, bits(a.parts[i].second));
    const auto y = std::pair(b.parts[i].first, bits(b.parts[i].second));
    if (x != y) return x < y;
  }
  return false;
}

TermId FormulaAlgebra::intern(Term term) {
  const auto [at, is_new] = known_.try_emplace(std::move(term), static_cast<TermId>(terms_.size()));
  if (is_new) terms_.push_back(at->first);
  return at->second;
}

TermId FormulaAlgebra::constant(double value) {
  Term term;
  term.number = value;
  return intern(std::move(term));
}

TermId FormulaAlgebra::sum(double number, Parts parts) {
  std::map<TermId, double> weights;
  for (const auto& [id, factor] : parts) {
    const Term& part = term(id);
    if (part.kind == Term::Kind::kConstant) {
      number += factor * part.number;
    } else if (part.kind == Term::Kind::kSum) {
      number += factor * part.number;
      for (const auto& [inner, inner_factor] : part.parts) weights[inner] += factor * inner_factor;
    } else if (part.kind == Term::Kind::kProduct && part.number != 1) {
      const double scale = part.number;
      const TermId bare = product(1, Parts(part.parts));
      weights[bare] += factor * scale;
    } else {
      weights[id] += factor;
    }
  }
  Term made;
  made.kind = Term::Kind::kSum;
  made.number = number;
  made.parts = collected(weights);
  if (made.parts.empty()) return constant(number);
  if (made.parts.size() == 1 && number == 0) return product(made.parts[0].second, {{made.parts[0].first, 1.0}});
  return intern(std::move(made));
}

TermId FormulaAlgebra::product(double number, Parts parts) {
  std::map<TermId, double> exponents;
  for (const auto& [id, exponent] : parts) {
    const Term& part = term(id);
    if (part.kind == Term::Kind::kConstant) {
      number *= std::pow(part.number, exponent);
    } else if (part.kind == Term::Kind::kProduct && is_whole(exponent)) {
      number *= std::pow(part.number, exponent);
      for (const auto& [inner, inner_exponent] : part.parts) exponents[inner] += exponent * inner_exponent;
    } else {
      exponents[id] += exponent;
    }
  }
  Term made;
  made.kind = Term::Kind::kProduct;
  made.number = number;
  made.parts = collected(exponents);
  if (made.parts.empty()) return constant(number);
  if (made.parts.size() == 1 && made.parts[0].second == 1 && number == 1) return made.parts[0].first;
  return intern(std::move(made));
}

TermId FormulaAlgebra::of_operation(ExprOp op, const std::vector<TermId>& args) {
  const auto number = [&](size_t i) -> const double* {
    const Term& arg = term(args[i]);
    return arg.kind == Term::Kind::kConstant ? &arg.number : nullptr;
  };
  switch (op) {
    case ExprOp::kAdd:
      return sum(0, {{args[0], 1.0}, {args[1], 1.0}});
    case ExprOp::kSub:
      return sum(0, {{args[0], 1.0}, {args[1], -1.0}});
    case ExprOp::kNeg:
      return product(-1, {{args[0], 1.0}});
    case ExprOp::kMul:
      return product(1, {{args[0], 1.0}, {args[1], 1.0}});
    case ExprOp::kDiv:
      return product(1, {{args[0], 1.0}, {args[1], -1.0}});
    case ExprOp::kSqrt:
      return product(1, {{args[0], 0.5}});
    case ExprOp::kRsqrt:
      return product(1, {{args[0], -0.5}});
    case ExprOp::kPow:
      if (const double* exponent = number(1)) return product(1, {{args[0], *exponent}});
      break;
    default:
      break;
  }
  Term made;
  made.kind = Term::Kind::kFunction;
  made.op = op;
  for (const TermId arg : args) made.parts.emplace_back(arg, 0.0);
  return intern(std::move(made));
}

TermId FormulaAlgebra::of_expression(const ops::Expression& expression, const std::vector<TermId>& inputs) {
  std::vector<TermId> mapped;
  for (const ops::ExprTerm& term : expression.terms()) {
    if (term.op == ExprOp::kInput) {
      mapped.push_back(inputs[static_cast<size_t>(term.input)]);
    } else if (term.op == ExprOp::kConstant) {
      mapped.push_back(constant(term.constant));
    } else {
      std::vector<TermId> args;
      for (int i = 0; i < ops::expr_op_arity(term.op); ++i) args.push_back(mapped[static_cast<size_t>(term.args[i])]);
      mapped.push_back(of_operation(term.op, args));
    }
  }
  return mapped.back();
}

// What a node's only result is made of; nullopt: a leaf.
std::optional<TermId> FormulaAlgebra::of_node(const ir::Node& node) {
  const tensor::Type& type = graph_.value(node.results[0]).type;
  switch (node.op) {
    case ops::OpKind::kMap: {
      const ops::Expression& expression = node.attributes.get_expression("expr");
      std::vector<TermId> inputs;
      for (const ir::ValueId id : node.operands) inputs.push_back(of(id));
      tensor::Shape shape;  // an operand that only widens the result is none of the formula
      for (const ops::ExprTerm& term : expression.terms()) {
        if (term.op != ExprOp::kInput) continue;
        ops::broadcast_onto(shape, graph_.value(node.operands[static_cast<size_t>(term.input)]).type.shape);
      }
      if (shape != type.shape) return std::nullopt;
      return of_expression(expression, inputs);
    }
    case ops::OpKind::kCast:
      if (type.dtype != tensor::DType::kF32 || !ops::is_plain_float(graph_.value(node.operands[0]).type)) break;
      return of(node.operands[0]);
    case ops::OpKind::kReduce: {
      const tensor::Type& x = graph_.value(node.operands[0]).type;
      const int rank = ops::rank(x);
      if (ops::resolve_axis(node.attributes.get_int("axis"), rank) != rank - 1 || !ops::last_dim(x).is_static()) break;
      if (!node.attributes.get_bool("keep")) break;
      const std::string& op = node.attributes.get_string("op");
      if (op != "max" && op != "sum" && op != "mean") break;
      Term made;
      made.kind = op == "max" ? Term::Kind::kRowMax : Term::Kind::kRowSum;
      made.parts = {{of(node.operands[0]), 1.0}};
      const TermId whole = intern(std::move(made));
      return op == "mean" ? product(1 / static_cast<double>(ops::last_dim(x).factor), {{whole, 1.0}}) : whole;
    }
    default:
      break;
  }
  return std::nullopt;
}

void FormulaAlgebra::add(const ir::Node& node) {
  if (node.results.size() != 1 || !node.regions.empty()) return;
  const auto made = of_node(node);
  if (!made) return;
  term_of_[static_cast<size_t>(node.results[0])] = *made;
  value_of_.try_emplace(*made, node.results[0]);
}

TermId FormulaAlgebra::of(ir::ValueId value) {
  const auto i = static_cast<size_t>(value);
  if (i >= term_of_.size()) term_of_.resize(i + 1, -1);
  if (term_of_[i] >= 0) return term_of_[i];
  Term leaf;
  leaf.kind = Term::Kind::kLeaf;
  leaf.leaf = value;
  return term_of_[i] = intern(std::move(leaf));
}

ir::ValueId FormulaAlgebra::value_of(TermId id) const {
  if (term(id).kind == Term::Kind::kLeaf) return term(id).leaf;
  const auto found = value_of_.find(id);
  return found == value_of_.end() ? -1 : found->second;
}

}  // namespace firstlight::compiler
