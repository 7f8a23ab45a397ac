// SPDX-License-Identifier: Apache-2.0
// What no output needs goes: nodes, weights, states.
#include "compiler/passes/passes.h"
#include "ir/rewrite.h"

namespace firstlight::compiler {

Status remove_dead_code(ir::Graph& graph, const CompileOptions&) {
  ir::eliminate_dead_code(graph);
  return ok_status();
}

}  // namespace firstlight::compiler
