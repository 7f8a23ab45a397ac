// SPDX-License-Identifier: Apache-2.0
// In which types a plan stores its states: what --kv-dtype says for logs, where the readers can take it.
#pragma once

#include <vector>

#include "base/status.h"
#include "compiler/compile.h"
#include "ir/graph.h"

namespace firstlight::compiler {

// Sets the types of the logs in `states`, which are the graph's. A block format goes to what attention alone reads;
// what chooses rows (index keys), or is read in another way, stays f16. Of q4_1s, components that are values alone take
// q4_1: it is the keys whose rounding shows. Errors: kUnsupported for types that the backend's kernels do not read.
Status store_states(const ir::Graph& graph, const CompileOptions& options, std::vector<ops::StateDecl>& states);

}  // namespace firstlight::compiler
