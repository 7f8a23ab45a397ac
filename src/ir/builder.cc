// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ir/rewrite.h"

namespace firstlight::ir {
Builder::Builder(Graph& graph) : graph_(graph) {}

ValueId Builder::new_value(Value value) {
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

ValueId Builder::add_input(std::string name, tensor::Type type) {
  const ValueId id = new_value(
      {.kind = Value::Kind::kInput, .name = std::move(name), .type = std::move(type), .producer = -1, .state = -1});
  graph_.body.parameters.push_back(id);
  return id;
}

ValueId Builder::add_weight(const std::string& name, const tensor::Type& type, const std::string& source) {
  if (graph_.weight_sources.contains(name)) {
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[i].kind == Value::Kind::kWeight && graph_.values[i].name == name)
        return static_cast<ValueId>(i);
    }
  }
  graph_.weight_sources[name] = WeightSource{source};
  return new_value({.kind = Value::Kind::kWeight, .name = name, .type = type, .producer = -1, .state = -1});
}

Result<ValueId> Builder::add_state(ops::StateDecl decl) {
  for (const auto& other : graph_.states) {
    if (other.name == decl.name) return invalid_argument("state '" + decl.name + "' is declared twice");
  }
  const auto index = static_cast<int32_t>(graph_.states.size());
  graph_.states.push_back(decl);
  return new_value({.kind = Value::Kind::kState,
                    .name = std::move(decl.name),
                    .type = tensor::Type::state(),
                    .producer = -1,
                    .state = index});
}

Result<std::vector<ValueId>> Builder::add(ops::OpKind op, std::span<const ValueId> operands,
                                          ops::Attributes attributes) {
  return add_with_regions(op, operands, std::move(attributes), {});
}

Result<ValueId> Builder::add_one(ops::OpKind op, std::span<const ValueId> operands, ops::Attributes attributes) {
  const auto results = FL_TRY(add(op, operands, std::move(attributes)));
  FL_CHECK(results.size() == 1);
  return results[0];
}

std::vector<ValueId> Builder::begin_region(std::span<const tensor::Type> parameters) {
  Region region;
  for (const auto& type : parameters) {
    region.parameters.push_back(
        new_value({.kind = Value::Kind::kParameter, .name = "", .type = type, .producer = -1, .state = -1}));
  }
  open_regions_.push_back(std::move(region));
  return open_regions_.back().parameters;
}

Region Builder::end_region(std::vector<ValueId> yields) {
  FL_CHECK(!open_regions_.empty());
  Region region = std::move(open_regions_.back());
  open_regions_.pop_back();
  region.yields = std::move(yields);
  return region;
}

Result<std::vector<ValueId>> Builder::add_with_regions(ops::OpKind op, std::span<const ValueId> operands,
                                                       ops::Attributes attributes, std::vector<Region> regions) {
  const NodeId node_id = FL_TRY(create_node(graph_, op, operands, std::move(attributes), std::move(regions), scope_));
  graph_.node(node_id).made_at = made_at_;
  (open_regions_.empty() ? graph_.body : open_regions_.back()).nodes.push_back(node_id);
  return graph_.node(node_id).results;
}

void Builder::add_output(std::string name, ValueId value) {
  graph_.output_names.push_back(std::move(name));
  graph_.body.yields.push_back(value);
}

}  // namespace firstlight::ir
