// SPDX-License-Identifier: Apache-2.0
// What passes use to change a graph: replacing uses, counting them, and dropping what nothing needs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"

namespace firstlight::ir {

// Makes a node that stands in no region yet: the caller places its id. Holds it against the operator's row and infers
// its results. Errors: kInvalidArgument from the row, with operator and scope.
Result<NodeId> create_node(Graph& graph, ops::OpKind op, std::span<const ValueId> operands, ops::Attributes attributes,
                           std::vector<Region> regions, const std::string& scope);

// Calls `visit` on every region, inner ones first.
void for_each_region(Graph& graph, const std::function<void(Region&)>& visit);

// Per node, a number for the region it stands in: equal for nodes of one region; -1 for a node that stands in none.
std::vector<int32_t> region_numbers(const Graph& graph);

// How often each value is used, by nodes, yields and outputs.
std::vector<int32_t> count_uses(const Graph& graph);

// Every use of `from` becomes one of `to`.
void replace_uses(Graph& graph, ValueId from, ValueId to);
// Many at once: every use of value v becomes one of replacement[v], of whose own replacement where that has one, and so
// on; -1, or past the end: v stays.
void replace_uses(Graph& graph, std::span<const ValueId> replacement);

// Who reads each value: nodes, in no order, each once per place; -1 for a region's yield.
std::vector<std::vector<NodeId>> find_users(const Graph& graph);

// Drops nodes whose results nothing needs, weights and states that no live node reads, and renumbers. An append is
// alive when something reads its result.
void eliminate_dead_code(Graph& graph);

}  // namespace firstlight::ir
