// SPDX-License-Identifier: Apache-2.0
// Small changes of a graph that keep the ids of its values: a value that is changed stays the one that others read,
// that is tapped and that is an output. What hypotheses are made of.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/rewrite.h"

namespace firstlight::locate {

struct EditStep {
  ops::OpKind op;
  ops::Attributes attributes;
  std::vector<ir::ValueId> more = {};  // operands behind the first
};

// What the node gave as result `index` goes through `steps` first. Errors: kInvalidArgument where that changes its
// type.
Status wrap_result(ir::Graph& graph, ir::NodeId id, size_t index, const std::vector<EditStep>& steps);

// The same where the node, its operands changed before, now gives `inner`.
Status wrap_result(ir::Graph& graph, ir::NodeId id, size_t index, const std::vector<EditStep>& steps,
                   const tensor::Type& inner);

// A tensor of the checkpoint in float32, read in front of the node.
Result<ir::ValueId> read_tensor(ir::Graph& graph, ir::NodeId id, const std::string& name, const tensor::Type& type);

// What the node reads as operand `index` goes through `steps` first.
Status wrap_operand(ir::Graph& graph, ir::NodeId id, size_t index, const std::vector<EditStep>& steps);

// The node hands its operand on. Errors: kInvalidArgument where the types differ.
Status become_identity(ir::Graph& graph, ir::NodeId id, size_t operand);

// Usual ones: name and formula of x0.
std::vector<std::pair<std::string, std::string>> activations();

// The body's nodes behind what they read, otherwise in their order. Errors: kInvalidArgument where they read in a
// circle or what stands in another node's region.
Status put_in_order(ir::Graph& graph);

EditStep map_step(const std::string& expression, std::vector<ir::ValueId> more = {});
EditStep take_step(int64_t axis, std::vector<int64_t> indices);
EditStep cast_step(const std::string& type);

// Another formula for each single change of `formula` that is a usual mistake, with what was changed: numbers replaced
// by one of `numbers`, factors, bounds and terms dropped, activations exchanged, signs turned.
struct FormulaChange {
  ops::Expression formula;
  std::string what;
  std::string instead;  // what the formula has now
};
std::vector<FormulaChange> formula_changes(const ops::Expression& formula, const std::vector<double>& numbers);

// Every number of that magnitude times `factor`.
ops::Expression with_numbers_scaled(const ops::Expression& formula, double number, double factor);

}  // namespace firstlight::locate
