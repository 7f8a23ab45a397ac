// SPDX-License-Identifier: Apache-2.0
// Traced functions: a Lua function of a spec is run once on symbols, and the operations on them become a formula. Since
// Lua would decide `if`, `and`, `or`, `not` and comparisons on symbols by itself, the bytecode of every function that a
// trace calls is checked for them first.
#pragma once

#include <cstdint>
#include <lua.hpp>
#include <span>
#include <string_view>

#include "ops/expression.h"

namespace firstlight::intake {

struct TraceArgument {
  int32_t input = -1;  // x<input>; -1: the number
  double number = 0;
};

// The formula of the function at `index` of the stack. `what` names the builtin in messages. Raises.
ops::Expression trace_function(lua_State* state, int index, std::span<const TraceArgument> arguments,
                               std::string_view what);

// The term of the traced value or number at `index`; raises on anything else, and on values of another trace.
int32_t traced_term(lua_State* state, int index);

// From the sandbox's hook, at each call while a trace runs: checks the called function. Raises.
void check_called_function(lua_State* state, lua_Debug* event);

// Turns call events of the sandbox's hook on or off.
void hook_calls(lua_State* state, bool calls);

}  // namespace firstlight::intake
