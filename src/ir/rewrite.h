// SPDX-License-Identifier: Apache-2.0
// What passes use to change a graph: replacing uses, counting them, and dropping what nothing needs.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace firstlight::ir {

// How often each value is used, by nodes, yields and outputs.
std::vector<int32_t> count_uses(const Graph& graph);

// Every use of `from` becomes one of `to`.
void replace_uses(Graph& graph, ValueId from, ValueId to);

// Drops nodes whose results nothing needs, weights and states that no live node reads, and renumbers. An append is alive
// when something reads its result.
void eliminate_dead_code(Graph& graph);

}  // namespace firstlight::ir
