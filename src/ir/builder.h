// SPDX-License-Identifier: Apache-2.0
// Builds a graph node by node. Each addition is held against the operator's table row (operands, attributes, shapes),
// so that a mistake is reported where it is made, not when the graph is verified.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"

namespace firstlight::ir {

class Builder {
 public:
  // Appends to `graph` (not owned), which must outlive the builder.
  explicit Builder(Graph& graph);

  // A parameter of the graph's body. Names are unique.
  ValueId add_input(std::string name, tensor::Type type);
  // The weight of that name; asking twice gives the same value. `source` is the tensor's name in the checkpoint.
  ValueId add_weight(const std::string& name, const tensor::Type& type, const std::string& source);
  // Declares a state; its value is what the run starts from. Errors: a name declared twice.
  Result<ValueId> add_state(ops::StateDecl decl);

  // Appends a node to the current region; returns its results. Errors: kInvalidArgument from the op's row, with the
  // scope.
  Result<std::vector<ValueId>> add(ops::OpKind op, std::span<const ValueId> operands, ops::Attributes attributes);
  // The same for ops with one result.
  Result<ValueId> add_one(ops::OpKind op, std::span<const ValueId> operands, ops::Attributes attributes);

  // Regions: begin_region opens one with these parameters, whose nodes the next add()s become; end_region closes it.
  // The finished regions wait for add_with_regions.
  std::vector<ValueId> begin_region(std::span<const tensor::Type> parameters);
  Region end_region(std::vector<ValueId> yields);
  Result<std::vector<ValueId>> add_with_regions(ops::OpKind op, std::span<const ValueId> operands,
                                                ops::Attributes attributes, std::vector<Region> regions);

  void add_output(std::string name, ValueId value);

  bool inside_region() const { return !open_regions_.empty(); }

  // The scope given to nodes added from now on.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }
  // Node::made_at of nodes added from now on.
  void set_made_at(std::string lines) { made_at_ = std::move(lines); }
  const tensor::Type& type(ValueId id) const { return graph_.value(id).type; }
  Graph& graph() { return graph_; }

 private:
  ValueId new_value(Value value);

  Graph& graph_;
  std::vector<Region> open_regions_;
  std::string scope_, made_at_;
};

}  // namespace firstlight::ir
