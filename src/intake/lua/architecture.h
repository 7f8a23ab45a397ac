// SPDX-License-Identifier: Apache-2.0
// architecture{…}: what a spec's chunk returns, checked; and the model types it is for.
#pragma once

#include <lua.hpp>
#include <string>
#include <vector>

namespace firstlight::intake {

// The builtin: checks the parts, returns the table.
int declare_architecture(lua_State* state);

// Whether the spec's table at `spec` has `model_type` in matches.model_type; `all` (may be null) takes every one.
bool matches_type(lua_State* state, int spec, const std::string& model_type, std::vector<std::string>* all);

}  // namespace firstlight::intake
