// SPDX-License-Identifier: Apache-2.0
// Rules:
//   ids        every id a node, region or output holds exists
//   order      an operand stands before its user, in the same region or one around it
//   single     every result belongs to exactly one node and every node to exactly one region
//   row        attributes and operands are what the operator's table row says
//   types      results have the types the row's rule infers
//   states     a state value names a declared state; state rows chain (each append takes the newest value)
//   weights    every weight has a source
//   outputs    names and yields of the body match
#include "ir/verify.h"

#include <algorithm>
#include <string>

namespace firstlight::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), visible_(graph.values.size(), false), owned_(graph.nodes.size(), false) {}

  Status run() {
    if (graph_.output_names.size() != graph_.body.yields.size())
      return broken("outputs", "as many names as values wanted");
    for (size_t i = 0; i < graph_.values.size(); ++i) FL_TRY(check_value(graph_.values[i], i));
    FL_TRY(check_region(graph_.body));
    for (size_t i = 0; i < owned_.size(); ++i) {
      if (!owned_[i]) return broken("single", "node " + std::to_string(i) + " is in no region");
    }
    return ok_status();
  }

 private:
  static Status broken(const std::string& rule, const std::string& what) {
    return internal_error("graph breaks rule '" + rule + "': " + what);
  }

  std::string at(const Node& node) const {
    return std::string(ops::op_name(node.op)) + (node.scope.empty() ? "" : " in " + node.scope);
  }

  Status check_value(const Value& value, size_t index) {
    const std::string name = "value " + std::to_string(index) + (value.name.empty() ? "" : " '" + value.name + "'");
    switch (value.kind) {
      case Value::Kind::kState:
        if (value.state < 0 || static_cast<size_t>(value.state) >= graph_.states.size() ||
            graph_.states[static_cast<size_t>(value.state)].name != value.name) {
          return broken("states", name + " names no declared state");
        }
        visible_[index] = true;
        break;
      case Value::Kind::kWeight:
        if (!graph_.weight_sources.contains(value.name)) return broken("weights", name + " has no source");
        visible_[index] = true;
        break;
      case Value::Kind::kResult:
        if (value.producer < 0 || static_cast<size_t>(value.producer) >= graph_.nodes.size()) {
          return broken("ids", name + " has no producer");
        }
        break;
      case Value::Kind::kInput:
      case Value::Kind::kParameter:
        break;
    }
    return ok_status();
  }

  Status use(ValueId id, const std::string& user) {
    if (id < 0 || static_cast<size_t>(id) >= visible_.size()) return broken("ids", user + " uses no value");
    if (!visible_[static_cast<size_t>(id)]) {
      return broken("order", user + " uses value " + std::to_string(id) + " before it is made or outside its region");
    }
    return ok_status();
  }

  Status check_region(const Region& region) {
    std::vector<ValueId> made;
    const auto show = [&](ValueId id, const std::string& what) -> Status {
      if (id < 0 || static_cast<size_t>(id) >= visible_.size()) return broken("ids", what + " names no value");
      if (visible_[static_cast<size_t>(id)])
        return broken("single", what + " makes value " + std::to_string(id) + " again");
      visible_[static_cast<size_t>(id)] = true;
      made.push_back(id);
      return ok_status();
    };
    for (const ValueId id : region.parameters) FL_TRY(show(id, "a region's parameter"));
    for (const NodeId id : region.nodes) {
      if (id < 0 || static_cast<size_t>(id) >= owned_.size()) return broken("ids", "a region names no node");
      if (owned_[static_cast<size_t>(id)]) return broken("single", "node " + std::to_string(id) + " is in two regions");
      owned_[static_cast<size_t>(id)] = true;
      const Node& node = graph_.node(id);
      for (const ValueId operand : node.operands) FL_TRY(use(operand, at(node)));
      for (const Region& inner : node.regions) FL_TRY(check_region(inner));
      FL_TRY(check_node(node));
      for (const ValueId result : node.results) {
        FL_TRY(show(result, at(node)));
        if (graph_.value(result).producer != id)
          return broken("single", at(node) + ": a result names another producer");
      }
    }
    for (const ValueId id : region.yields) FL_TRY(use(id, "a region's yield"));
    // Results of an inner region are not visible outside it.
    if (&region != &graph_.body) {
      for (const ValueId id : made) visible_[static_cast<size_t>(id)] = false;
    }
    return ok_status();
  }

  Status check_node(const Node& node) {
    const ops::OpDef& def = ops::op_def(node.op);
    std::vector<tensor::Type> types;
    for (const ValueId id : node.operands) types.push_back(graph_.value(id).type);
    const auto states = graph_.states_of(node.operands);
    ops::Attributes attributes = node.attributes;
    const auto as_rule = [&](Status status, const char* rule) {
      return status.ok() ? ok_status() : broken(rule, at(node) + ": " + status.message());
    };
    FL_TRY(as_rule(ops::check_attributes(def, attributes), "row"));
    if (!(attributes == node.attributes)) return broken("row", at(node) + ": an attribute with a default is absent");
    FL_TRY(as_rule(ops::check_operands(def, types), "row"));
    if (static_cast<int>(node.regions.size()) != def.num_regions)
      return broken("row", at(node) + ": wrong number of regions");
    for (size_t i = 0; i < node.regions.size(); ++i) {
      const auto wanted = ops::region_parameters(node.op, static_cast<int>(i), types, node.attributes);
      if (!wanted.ok()) return broken("types", at(node) + ": " + wanted.status().message());
      std::vector<tensor::Type> found;
      for (const ValueId id : node.regions[i].parameters) found.push_back(graph_.value(id).type);
      if (!(found == *wanted))
        return broken("types", at(node) + ": a region's parameters are not what its operands ask for");
    }
    std::vector<std::vector<tensor::Type>> yields;
    for (const Region& region : node.regions) {
      auto& list = yields.emplace_back();
      for (const ValueId id : region.yields) list.push_back(graph_.value(id).type);
    }
    const auto inferred = def.infer({.operands = types,
                                     .attributes = node.attributes,
                                     .state = states.empty() ? nullptr : states[0],
                                     .regions = yields,
                                     .states = states});
    if (!inferred.ok()) return broken("types", at(node) + ": " + inferred.status().message());
    if (inferred->size() != node.results.size()) return broken("types", at(node) + ": wrong number of results");
    for (size_t i = 0; i < node.results.size(); ++i) {
      const tensor::Type& found = graph_.value(node.results[i]).type;
      if (!(found == (*inferred)[i])) {
        return broken("types", at(node) + ": result " + std::to_string(i) + " is " + found.to_string() + ", " +
                                   (*inferred)[i].to_string() + " wanted");
      }
    }
    return ok_status();
  }

  const Graph& graph_;
  std::vector<bool> visible_;
  std::vector<bool> owned_;
};

}  // namespace

Status verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace firstlight::ir
