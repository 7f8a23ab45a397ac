// SPDX-License-Identifier: Apache-2.0
// The rules every graph obeys between passes, as a list that can be read: see verify.cc.
#pragma once

#include "base/status.h"
#include "ir/graph.h"

namespace firstlight::ir {

// Errors: kInternal naming the rule, the node and its scope.
Status verify(const Graph& graph);

}  // namespace firstlight::ir
