// SPDX-License-Identifier: Apache-2.0
#include "ir/rewrite.h"

#include <functional>
#include <set>

#include "base/check.h"
#include "tensor/view.h"

namespace firstlight::ir {
namespace {

// Calls `visit` on every id a region uses (operands, yields), inner regions included.
void for_each_use(Graph& graph, Region& region, const std::function<void(ValueId&)>& visit) {
  for (const NodeId id : region.nodes) {
    Node& node = graph.node(id);
    for (ValueId& operand : node.operands) visit(operand);
    for (Region& inner : node.regions) for_each_use(graph, inner, visit);
  }
  for (ValueId& yield : region.yields) visit(yield);
}

// Copies the live part of a graph, numbering anew in order of first appearance.
class Compactor {
 public:
  explicit Compactor(Graph& old) : old_(old), needed_(old.values.size(), false), new_id_(old.values.size(), -1) {}

  Graph run() {
    mark_region(old_.body);
    Graph out;
    out.name = old_.name;
    out.output_names = old_.output_names;
    out.metadata = old_.metadata;
    for (const ValueId id : old_.body.parameters) out.body.parameters.push_back(move_value(out, id));
    keep_leaves(out);
    fill_region(out, old_.body, out.body);
    return out;
  }

 private:
  void need(ValueId id) {
    if (needed_[static_cast<size_t>(id)]) return;
    needed_[static_cast<size_t>(id)] = true;
  }

  // Marks backwards: nodes in reverse order, so that one sweep is enough.
  void mark_region(const Region& region) {
    for (const ValueId id : region.yields) need(id);
    for (auto it = region.nodes.rbegin(); it != region.nodes.rend(); ++it) {
      const Node& node = old_.node(*it);
      bool live = false;
      for (const ValueId id : node.results) live = live || needed_[static_cast<size_t>(id)];
      if (!live) continue;
      for (const ValueId id : node.operands) need(id);
      for (const Region& inner : node.regions) mark_region(inner);
    }
  }

  ValueId move_value(Graph& out, ValueId id) {
    out.values.push_back(old_.value(id));
    return new_id_[static_cast<size_t>(id)] = static_cast<ValueId>(out.values.size()) - 1;
  }

  void keep_leaves(Graph& out) {
    for (size_t i = 0; i < old_.values.size(); ++i) {
      const Value& value = old_.values[i];
      if (!needed_[i]) continue;
      if (value.kind == Value::Kind::kWeight) {
        move_value(out, static_cast<ValueId>(i));
        out.weight_sources[value.name] = old_.weight_sources.at(value.name);
      } else if (value.kind == Value::Kind::kState) {
        state_map_[value.state] = static_cast<int32_t>(out.states.size());
        out.states.push_back(old_.states[static_cast<size_t>(value.state)]);
        out.value(move_value(out, static_cast<ValueId>(i))).state = state_map_[value.state];
      }
    }
  }

  std::vector<ValueId> mapped(const std::vector<ValueId>& ids) const {
    std::vector<ValueId> out;
    for (const ValueId id : ids) {
      FL_CHECK(new_id_[static_cast<size_t>(id)] >= 0);
      out.push_back(new_id_[static_cast<size_t>(id)]);
    }
    return out;
  }

  void fill_region(Graph& out, Region& from, Region& to) {
    for (const NodeId id : from.nodes) {
      Node& node = old_.node(id);
      bool live = false;
      for (const ValueId result : node.results) live = live || needed_[static_cast<size_t>(result)];
      if (!live) continue;
      Node copy{.op = node.op,
                .operands = mapped(node.operands),
                .attributes = std::move(node.attributes),
                .results = {},
                .regions = {},
                .scope = std::move(node.scope),
                .made_at = std::move(node.made_at)};
      for (Region& inner : node.regions) {
        Region region;
        for (const ValueId parameter : inner.parameters) region.parameters.push_back(move_value(out, parameter));
        fill_region(out, inner, region);
        copy.regions.push_back(std::move(region));
      }
      const auto new_node = static_cast<NodeId>(out.nodes.size());
      for (const ValueId result : node.results) {
        const ValueId moved = move_value(out, result);
        out.value(moved).producer = new_node;
        if (out.value(moved).state >= 0) out.value(moved).state = state_map_.at(out.value(moved).state);
        copy.results.push_back(moved);
      }
      out.nodes.push_back(std::move(copy));
      to.nodes.push_back(new_node);
    }
    to.yields = mapped(from.yields);
  }

  Graph& old_;
  std::vector<bool> needed_;
  std::vector<ValueId> new_id_;
  std::map<int32_t, int32_t> state_map_;
};

}  // namespace

namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;  // of one value, a token's part where it grows with the batch

// No kernel takes more axes, no machine more elements; sizes may come from a file or a spec.
Status check_extent(const tensor::Type& type) {
  if (type.is_state()) return ok_status();
  if (type.shape.size() > static_cast<size_t>(tensor::kMaxRank)) {
    return invalid_argument("its result " + type.to_string() + " has " + std::to_string(type.shape.size()) +
                            " axes, at most " + std::to_string(tensor::kMaxRank) + " wanted");
  }
  int64_t elements = 1;
  for (const tensor::Dim& dim : type.shape) {
    if (dim.factor == 0) return ok_status();
    if (dim.factor > kMostElements / elements) {
      return invalid_argument("its result " + type.to_string() + " has more than 2^40 elements");
    }
    elements *= dim.factor;
  }
  return ok_status();
}

}  // namespace

Result<NodeId> create_node(Graph& graph, ops::OpKind op, std::span<const ValueId> operands, ops::Attributes attributes,
                           std::vector<Region> regions, const std::string& scope) {
  const ops::OpDef& def = ops::op_def(op);
  const std::string where = std::string(def.name) + (scope.empty() ? "" : " in " + scope);
  FL_TRY(ops::check_attributes(def, attributes).with_context(where));
  std::vector<tensor::Type> types;
  int32_t state = -1;
  for (const ValueId id : operands) {
    types.push_back(graph.value(id).type);
    if (types.back().is_state() && state < 0) state = graph.value(id).state;
  }
  const auto states = graph.states_of(operands);
  FL_TRY(ops::check_operands(def, types).with_context(where));
  std::vector<std::vector<tensor::Type>> yields;
  for (const Region& region : regions) {
    auto& list = yields.emplace_back();
    for (const ValueId id : region.yields) list.push_back(graph.value(id).type);
  }
  const auto result_types = FL_TRY(def.infer({.operands = types,
                                              .attributes = attributes,
                                              .state = states.empty() ? nullptr : states[0],
                                              .regions = yields,
                                              .states = states})
                                       .with_context(where));
  for (const tensor::Type& type : result_types) FL_TRY(check_extent(type).with_context(where));
  const auto id = static_cast<NodeId>(graph.nodes.size());
  Node node{.op = op,
            .operands = {operands.begin(), operands.end()},
            .attributes = std::move(attributes),
            .results = {},
            .regions = std::move(regions),
            .scope = scope};
  for (const auto& type : result_types) {
    node.results.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({.kind = Value::Kind::kResult,
                            .name = "",
                            .type = type,
                            .producer = id,
                            .state = type.is_state() ? state : -1});
  }
  graph.nodes.push_back(std::move(node));
  return id;
}

namespace {

void visit_regions(Graph& graph, Region& region, const std::function<void(Region&)>& visit) {
  for (const NodeId id : region.nodes) {
    for (size_t i = 0; i < graph.node(id).regions.size(); ++i) visit_regions(graph, graph.node(id).regions[i], visit);
  }
  visit(region);
}

}  // namespace

void for_each_region(Graph& graph, const std::function<void(Region&)>& visit) {
  visit_regions(graph, graph.body, visit);
}

std::vector<int32_t> region_numbers(const Graph& graph) {
  std::vector<int32_t> numbers(graph.nodes.size(), -1);
  int32_t next = 0;
  for_each_region(const_cast<Graph&>(graph), [&](const Region& region) {
    for (const NodeId id : region.nodes) numbers[static_cast<size_t>(id)] = next;
    ++next;
  });
  return numbers;
}

std::vector<int32_t> count_uses(const Graph& graph) {
  std::vector<int32_t> uses(graph.values.size(), 0);
  for_each_use(const_cast<Graph&>(graph), const_cast<Region&>(graph.body),
               [&](ValueId& id) { ++uses[static_cast<size_t>(id)]; });
  return uses;
}

void replace_uses(Graph& graph, ValueId from, ValueId to) {
  for_each_use(graph, graph.body, [&](ValueId& id) {
    if (id == from) id = to;
  });
}

void replace_uses(Graph& graph, std::span<const ValueId> replacement) {
  for_each_use(graph, graph.body, [&](ValueId& id) {
    while (static_cast<size_t>(id) < replacement.size() && replacement[static_cast<size_t>(id)] >= 0) {
      id = replacement[static_cast<size_t>(id)];
    }
  });
}

std::vector<std::vector<NodeId>> find_users(const Graph& graph) {
  std::vector<std::vector<NodeId>> users(graph.values.size());
  for_each_region(const_cast<Graph&>(graph), [&](const Region& region) {
    for (const NodeId id : region.nodes) {
      for (const ValueId operand : graph.node(id).operands) users[static_cast<size_t>(operand)].push_back(id);
    }
    for (const ValueId yield : region.yields) users[static_cast<size_t>(yield)].push_back(-1);
  });
  return users;
}

void eliminate_dead_code(Graph& graph) { graph = Compactor(graph).run(); }

}  // namespace firstlight::ir
