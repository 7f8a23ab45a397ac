// SPDX-License-Identifier: Apache-2.0
// The proof that a config key is bound: with another value in its place the trace gives another graph, or is refused. A
// name that is made up ("silu_changed") is often refused for that alone, which proves nothing of those that the spec
// knows: the words in the Lua text that refused are tried as well, and one that is accepted without a change betrays
// the key, unless another has an effect. Values that c:expect names are not tried.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "intake/config_tree.h"
#include "intake/trace.h"

namespace firstlight::intake {

// Whether the leaf at `path` lies under a key that was waived, alone or with the object it is in; its reason, else
// null.
const std::string* waiver_of(const ConfigRecord& record, const std::string& path);

// Of the leaves that the trace touched and did not waive, those whose value never reaches the graph. Traces again for
// each leaf, on `threads` threads.
Result<std::set<std::string>> find_unbound_keys(const TraceInput& input, const ConfigNode& config, const Trace& base,
                                                int threads);

}  // namespace firstlight::intake
