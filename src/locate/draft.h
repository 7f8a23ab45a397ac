// SPDX-License-Identifier: Apache-2.0
// Hypotheses of one node while they are collected: what makers look at, and how they add one. Makers are functions of
// one interface, each for a kind of operator (maker_*.cc); hypotheses.cc has the table that says which is asked when.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "locate/edit.h"
#include "locate/hypotheses.h"

namespace firstlight::locate {

class Draft {
 public:
  Draft(const ir::Graph& of, ir::NodeId node_id, const Hints& known);

  const ir::Graph& graph;
  const ir::NodeId id;
  const ir::Node& node;
  const Hints& hints;
  const bool routing;  // it decides which experts see a token
  std::vector<Hypothesis> out;
  std::string words;  // Hypothesis::words of what is added from now on

  using Apply = std::function<Status(ir::Graph&, ir::NodeId)>;
  Hypothesis& add(Cause cause, std::string what, std::string fix, Apply apply, int rank);
  // Another value of one attribute.
  void set(Cause cause, const std::string& name, const ops::Attribute& value, const std::string& what, int rank);
  // A step that is missing behind the node, or before operand k: a formula of x0.
  void insert(const std::string& what, const std::string& text, int rank);
  void insert_before(size_t k, const std::string& what, const std::string& text, int rank);
  // Operand k, a tensor of this node alone, goes through these steps.
  void tensor_step(size_t k, const std::string& what, const std::string& fix, std::vector<EditStep> steps, int rank);

  Cause here(Cause usual) const { return routing ? Cause::kRouting : usual; }
  bool is_weight(ir::ValueId value) const;  // a tensor, or computed from tensors alone
  const tensor::Type& type(ir::ValueId value) const { return graph.value(value).type; }
  int64_t last_dim(ir::ValueId value) const;

  // Numbers of the config whose place has that word in it; the first of them; those that stand in formulas.
  std::vector<double> numbers_with(std::string_view word) const;
  double config_or(std::string_view word, double fallback) const;
  std::vector<double> formula_numbers() const;

 private:
  std::vector<bool> weights_;
};

// Attributes whose numbers are mistaken, the usual values, and what config keys have in their name that hold one.
struct NumberRow {
  ops::OpKind op;
  const char* attribute;
  Cause cause;
  std::vector<double> values;
  const char* config;
};
const std::vector<NumberRow>& number_rows();

// Keys of numbers that stand in formulas: no counts and ids.
bool stands_in_formulas(const std::string& name);

std::string number(double value);

// The makers.
void numbers_of_attributes(Draft& draft);
void switches(Draft& draft);    // every one the other way
void other_norm(Draft& draft);  // an rms norm for a layer norm, or the other way round
void of_rope(Draft& draft);
void rope_of_others(Draft& draft);  // attention without rotation where other layers have it
void of_attend(Draft& draft);
void of_formula(Draft& draft);
void order_of_operands(Draft& draft);
void left_out(Draft& draft);        // the node should not be there
void inserted(Draft& draft);        // a step that is missing, behind this one or before it
void of_parts(Draft& draft);        // slices exchanged
void other_operands(Draft& draft);  // another value of the layer is meant
void gate_and_norm(Draft& draft);   // in the other order
void unread_tensors(Draft& draft);  // as a bias, a factor, a norm
void missing_norm(Draft& draft);
void missing_activation(Draft& draft);
void norm_by_groups(Draft& draft);
void of_tensors(Draft& draft);
void of_scales(Draft& draft);
void of_expert_weights(Draft& draft);
void of_routing(Draft& draft);

}  // namespace firstlight::locate
