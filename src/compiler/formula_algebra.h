// SPDX-License-Identifier: Apache-2.0
// What the values of a region are as formulas, in a normal form in which equal mathematics written differently is one
// term: chains of maps are seen through, sums and products are flat and ordered, quotients and roots are powers, means
// are sums times a number. For recognising operators that a spec wrote out in primitives.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace firstlight::compiler {

using TermId = int32_t;

struct Term {
  enum class Kind : uint8_t {
    kLeaf,      // a value of the graph
    kConstant,  // `number`
    kSum,       // `number` + sum of factor * part
    kProduct,   // `number` * product of part ^ exponent
    kFunction,  // an element-wise operation of its parts
    kRowSum,    // the sum of the only part over the last axis, kept as 1
    kRowMax,
  };
  Kind kind = Kind::kConstant;
  ir::ValueId leaf = -1;
  ops::ExprOp op = ops::ExprOp::kConstant;
  double number = 0;
  std::vector<std::pair<TermId, double>> parts;  // ordered by term for sums and products

  const double* part(TermId id) const {  // its factor or exponent; null: not there
    for (const auto& [term, weight] : parts) {
      if (term == id) return &weight;
    }
    return nullptr;
  }
};

class FormulaAlgebra {
 public:
  explicit FormulaAlgebra(const ir::Graph& graph) : graph_(graph), term_of_(graph.values.size(), -1) {}

  // Nodes are added in the order of their region; results get their terms.
  void add(const ir::Node& node);
  // What was not added is a leaf.
  TermId of(ir::ValueId value);
  const Term& term(TermId id) const { return terms_[static_cast<size_t>(id)]; }
  // The first value that was added with this term, or that is this leaf; -1: none.
  ir::ValueId value_of(TermId id) const;

  TermId constant(double value);
  TermId sum(double number, std::vector<std::pair<TermId, double>> parts);
  TermId product(double number, std::vector<std::pair<TermId, double>> parts);

 private:
  TermId intern(Term term);
  TermId of_expression(const ops::Expression& expression, const std::vector<TermId>& inputs);
  TermId of_operation(ops::ExprOp op, const std::vector<TermId>& args);
  std::optional<TermId> of_node(const ir::Node& node);

  struct Less {
    bool operator()(const Term& a, const Term& b) const;
  };
  const ir::Graph& graph_;
  std::vector<Term> terms_;
  std::map<Term, TermId, Less> known_;
  std::vector<TermId> term_of_;  // per value; -1: not asked for
  std::map<TermId, ir::ValueId> value_of_;
};

}  // namespace firstlight::compiler
