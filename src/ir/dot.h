// SPDX-License-Identifier: Apache-2.0
// A graph as Graphviz draws it.
#pragma once

#include <string>

#include "ir/graph.h"

namespace firstlight::ir {

// The DOT text: nodes as boxes grouped by scope, values as arrows with their types, weights left out but for their
// names.
std::string print_dot(const Graph& graph);

}  // namespace firstlight::ir
