// SPDX-License-Identifier: Apache-2.0
// Which values depend on weights alone: what can be computed once, at load.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace firstlight::compiler {

// Per value of the graph's body. Values inside regions are never in it.
std::vector<bool> weight_only_values(const ir::Graph& graph);

}  // namespace firstlight::compiler
