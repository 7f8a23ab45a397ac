// SPDX-License-Identifier: Apache-2.0
// Reads the bytecode of one Lua 5.4 function (as lua_dump writes it) and follows values through its registers: where
// does a branch, a comparison or a `not` meet a traced value?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::intake {

struct TracedInputs {
  std::vector<bool> parameters;
  std::vector<bool> upvalues;
};

struct TracedBranch {
  int line = 0;           // 0: there is none
  std::string construct;  // "a comparison", "'not'", "'if', 'and' or 'or'"
};

// Errors: kUnsupported, when the dump is not of the Lua this was written for.
Result<TracedBranch> find_traced_branch(std::string_view dump, const TracedInputs& inputs);

}  // namespace firstlight::intake
