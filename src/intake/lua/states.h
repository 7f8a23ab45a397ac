// SPDX-License-Identifier: Apache-2.0
// What a spec's `state` function declares: append{…}, rate_log{…}, fixed{…}, history{…}, one state per layer that owns
// one.
#pragma once

#include <lua.hpp>

#include "intake/lua/kinds.h"

namespace firstlight::intake {

// The table at `index` (name → declaration) becomes a table name → states by layer from 0, left on the stack. Asking
// that table for a layer that has no state of the name raises. `parameters` is the index of the spec's parameters,
// whose `layers` counts the layers. May raise.
void declare_states(lua_State* state, int index, int parameters);

// The handle at `index`; raises when it is none. A recurrence moves the handle itself on to the state after it, so that
// everybody who holds it sees the newest.
StateValue& state_operand(lua_State* state, int index, const char* what);

}  // namespace firstlight::intake
