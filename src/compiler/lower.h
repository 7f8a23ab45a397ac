// SPDX-License-Identifier: Apache-2.0
// From a graph to a plan: a buffer for every value, a kernel for every node, the arena's layout for every bucket.
#pragma once

#include "compiler/compile.h"

namespace firstlight::compiler {

// Errors: kUnsupported when the backend has no kernel for a node.
Result<plan::Plan> lower(const ir::Graph& graph, const CompileOptions& options);

// Lays out the arena of `bucket` (its sizes are given): places every arena buffer so that no two that are alive at one
// time overlap; with `reuse` off each gets a place of its own. 64-byte aligned.
void assign_arena(const plan::Plan& plan, bool reuse, plan::Bucket& bucket);

}  // namespace firstlight::compiler
