// SPDX-License-Identifier: Apache-2.0
// Reading operands and attributes of operators from the Lua stack. Everything here may raise.
#pragma once

#include <lua.hpp>
#include <span>
#include <string_view>

#include "ir/graph.h"
#include "ops/op.h"

namespace firstlight::intake {

ir::ValueId graph_operand(lua_State* state, int index, std::string_view what);

// The attributes in the table at `index`, but for the names in `skip`; unknown names raise.
ops::Attributes read_attributes(lua_State* state, int index, ops::OpKind op, std::span<const std::string_view> skip);

}  // namespace firstlight::intake
