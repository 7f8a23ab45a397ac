// SPDX-License-Identifier: Apache-2.0
#include "locate/draft.h"

#include <cmath>

#include "compiler/weight_values.h"

namespace firstlight::locate {

using ops::OpKind;

const std::vector<NumberRow>& number_rows() {
  static const std::vector<NumberRow> rows = {
      {OpKind::kRmsNorm, "eps", Cause::kNorm, {1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-2, 0}, "eps"},
      {OpKind::kLayerNorm, "eps", Cause::kNorm, {1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-2, 0}, "eps"},
      {OpKind::kRmsNorm, "offset", Cause::kNorm, {0, 1}, ""},
      {OpKind::kRope, "scale", Cause::kPosition, {1}, "factor"},
      {OpKind::kAttend, "scale", Cause::kConfig, {1}, "multiplier"},
      {OpKind::kAttendSegments, "scale", Cause::kConfig, {1}, "multiplier"},
      {OpKind::kRoute, "scale", Cause::kRouting, {1}, "scal"},
  };
  return rows;
}

std::string number(double value) { return ops::exact_decimal(value); }

bool stands_in_formulas(const std::string& name) {
  if (name.find("rope") != std::string::npos || name.find("rotary") != std::string::npos) return false;
  for (const char* word : {"scal", "factor", "mult", "cap", "limit", "alpha", "eps", "clip", "clamp", "hidden_size",
                           "beta", "bound", "temperature"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

Draft::Draft(const ir::Graph& of, ir::NodeId node_id, const Hints& known)
    : graph(of),
      id(node_id),
      node(of.node(node_id)),
      hints(known),
      routing(known.routing.contains(node_id)),
      weights_(compiler::weight_only_values(of)) {}

Hypothesis& Draft::add(Cause cause, std::string what, std::string fix, Apply apply, int rank) {
  out.push_back({.cause = cause,
                 .what = std::move(what),
                 .fix = std::move(fix),
                 .of_weights = false,
                 .rank = rank,
                 .words = words,
                 .apply = std::move(apply)});
  return out.back();
}

void Draft::set(Cause cause, const std::string& name, const ops::Attribute& value, const std::string& what, int rank) {
  add(
      cause, what, "in the spec, or in config.json where it reads it: " + what,
      [name, value](ir::Graph& changed, ir::NodeId at) {
        changed.node(at).attributes.set(name, value);
        return ok_status();
      },
      rank);
}

void Draft::insert(const std::string& what, const std::string& text, int rank) {
  add(
      here(Cause::kConfig), what, "the spec lacks this step: " + text,
      [text](ir::Graph& changed, ir::NodeId at) { return wrap_result(changed, at, 0, {map_step(text)}); }, rank);
}
void Draft::insert_before(size_t k, const std::string& what, const std::string& text, int rank) {
  add(
      here(Cause::kConfig), what, "the spec lacks this step: " + text,
      [k, text](ir::Graph& changed, ir::NodeId at) { return wrap_operand(changed, at, k, {map_step(text)}); }, rank);
}

void Draft::tensor_step(size_t k, const std::string& what, const std::string& fix, std::vector<EditStep> steps,
                        int rank) {
  add(
      Cause::kWeight, what, fix,
      [k, steps = std::move(steps)](ir::Graph& changed, ir::NodeId at) { return wrap_operand(changed, at, k, steps); },
      rank)
      .of_weights = true;
}

bool Draft::is_weight(ir::ValueId value) const {
  return graph.value(value).kind == ir::Value::Kind::kWeight || weights_[static_cast<size_t>(value)];
}

int64_t Draft::last_dim(ir::ValueId value) const {
  const auto& shape = type(value).shape;
  return shape.empty() ? 1 : shape.back().factor;
}

std::vector<double> Draft::numbers_with(std::string_view word) const {
  std::vector<double> numbers;
  for (const auto& [name, value] : hints.config) {
    if (!word.empty() && name.find(word) != std::string::npos) numbers.push_back(value);
  }
  return numbers;
}

double Draft::config_or(std::string_view word, double fallback) const {
  const auto numbers = numbers_with(word);
  return numbers.empty() ? fallback : numbers[0];
}

std::vector<double> Draft::formula_numbers() const {
  std::set<double> numbers;
  for (const auto& [name, value] : hints.config) {
    if (!stands_in_formulas(name) || value == 0) continue;
    numbers.insert(value);
    if (name.find("hidden_size") != std::string::npos) numbers.insert(std::sqrt(value));
    if (value > 0 && value != 1) numbers.insert(1 / value);
  }
  return {numbers.begin(), numbers.end()};
}

}  // namespace firstlight::locate
