// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/row_stages.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/simplify_formula.h"
#include "ops/infer.h"

namespace firstlight::compiler {
namespace {

using ops::Expression;
using ops::ExprOp;
using ops::RowStage;

// The formula with input i renamed to inputs[i].
Expression renamed(const Expression& formula, std::span<const ops::DecomposeBuilder::Value> inputs) {
  Expression made;
  std::vector<int32_t> terms;
  for (const ops::DecomposeBuilder::Value input : inputs) terms.push_back(made.input(input));
  made.set_result(made.inlined(formula, terms));
  return made;
}

bool reads(const Expression& formula, int32_t input) {
  return std::any_of(formula.terms().begin(), formula.terms().end(),
                     [&](const ops::ExprTerm& term) { return term.op == ExprOp::kInput && term.input == input; });
}

}  // namespace

RowStages::RowStages(const std::vector<ir::ValueId>& operands) : num_operands_(operands.size()) {
  for (size_t i = 0; i < operands.size(); ++i) value_of_[operands[i]] = static_cast<Value>(i);
}

RowStages::Value RowStages::emit(ops::OpKind op, std::span<const Value> operands, ops::Attributes attributes) {
  FL_CHECK(op == ops::OpKind::kMap || op == ops::OpKind::kReduce);
  RowStage stage;
  if (op == ops::OpKind::kMap) {
    stage.formula = renamed(attributes.get_expression("expr"), operands);
  } else {
    stage.formula.input(operands[0]);
    stage.reduce = ops::row_reduce_from_name(attributes.get_string("op")).value();
  }
  stages_.push_back(std::move(stage));
  return static_cast<Value>(num_operands_ + stages_.size()) - 1;
}

const tensor::Type& RowStages::type_of(Value) const {
  static const tensor::Type type = ops::f32({});
  return type;
}

Status RowStages::add(const ir::Node& node) {
  std::vector<Value> operands;
  for (const ir::ValueId id : node.operands) operands.push_back(value_of_.at(id));
  if (node.op == ops::OpKind::kMap || node.op == ops::OpKind::kReduce) {
    value_of_[node.results[0]] = emit(node.op, operands, node.attributes);
    return ok_status();
  }
  const auto values = FL_TRY(ops::op_def(node.op).decompose(*this, operands, node.attributes));
  value_of_[node.results[0]] = values[0];
  return ok_status();
}

// Puts stage `at`, which is not reduced and which one other stage alone reads, into that one.
void RowStages::join(size_t at, std::vector<Value>& results) {
  const auto own = static_cast<Value>(num_operands_ + at);
  const auto moved = [&](Value value) { return value > own ? value - 1 : value; };
  for (size_t s = at + 1; s < stages_.size(); ++s) {
    Expression made;
    std::vector<int32_t> terms;
    const int count = static_cast<int>(num_operands_ + s);
    const bool reader = reads(stages_[s].formula, own);
    for (Value i = 0; i < count; ++i) terms.push_back(i == own ? -1 : made.input(moved(i)));
    if (reader) {
      const std::span<const int32_t> earlier(terms.data(), static_cast<size_t>(own));
      terms[static_cast<size_t>(own)] = made.inlined(stages_[at].formula, earlier);
    } else {
      terms[static_cast<size_t>(own)] = 0;
    }
    made.set_result(made.inlined(stages_[s].formula, terms));
    stages_[s].formula = std::move(made);
  }
  stages_.erase(stages_.begin() + static_cast<std::ptrdiff_t>(at));
  for (Value& result : results) result = moved(result);
}

ops::Attributes RowStages::attributes(const std::vector<ir::ValueId>& results) {
  std::vector<Value> wanted;
  for (const ir::ValueId id : results) wanted.push_back(value_of_.at(id));
  for (size_t at = 0; at < stages_.size();) {
    const auto own = static_cast<Value>(num_operands_ + at);
    const auto readers =
        std::count_if(stages_.begin(), stages_.end(), [&](const RowStage& stage) { return reads(stage.formula, own); });
    const bool joins = stages_[at].reduce == RowStage::Reduce::kNone && readers == 1 &&
                       std::find(wanted.begin(), wanted.end(), own) == wanted.end();
    if (joins) {
      join(at, wanted);
    } else {
      ++at;
    }
  }
  ops::Attributes attributes;
  std::vector<Expression> formulas;
  std::string reduce;
  for (RowStage& stage : stages_) {
    reduce += (reduce.empty() ? "" : ",") + std::string(ops::row_reduce_name(stage.reduce));
    formulas.push_back(simplified(stage.formula));
  }
  std::vector<int64_t> places;
  for (const Value value : wanted) places.push_back(value - static_cast<int64_t>(num_operands_));
  attributes.set("stages", std::move(formulas));
  attributes.set("reduce", std::move(reduce));
  attributes.set("results", std::move(places));
  return attributes;
}

}  // namespace firstlight::compiler
