// SPDX-License-Identifier: Apache-2.0
// From a graph to a plan: a buffer for every value, a kernel for every node, the arena's layout for every bucket.
#pragma once

#include "compiler/compile.h"

namespace firstlight::compiler {

// Errors: kUnsupported when the backend has no kernel for a node.
Result<plan::Plan> lower(const ir::Graph& graph, const CompileOptions& options);

// Lets results of element-wise steps take the place of an operand that nothing reads afterwards: such a buffer becomes
// an alias of the operand's; they are returned. Only for steps whose kernels read each element before they write it.
std::vector<plan::BufferId> reuse_in_place(plan::Plan& plan, bool device);

// Lays out the arena of `bucket` (its sizes are given, and the bytes of workspaces): places every arena buffer so that
// no two that are alive at one time overlap; with `reuse` off each gets a place of its own. 64-byte aligned.
void assign_arena(const plan::Plan& plan, bool reuse, plan::Bucket& bucket);

}  // namespace firstlight::compiler
