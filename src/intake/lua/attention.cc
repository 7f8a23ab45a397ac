// SPDX-License-Identifier: Apache-2.0
// State: state:append{…}.
#include "intake/lua/kinds.h"
#include "intake/lua/operators.h"
#include "intake/lua/stack.h"
#include "intake/lua/states.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

// state:append{ k = k, v = v }: one value per component; the state after it.
int append_rows(lua_State* state) {
  const ir::ValueId before = state_operand(state, 1, "append").id;
  luaL_checktype(state, 2, LUA_TTABLE);
  const ops::StateDecl& decl = *tracer_of(state).graph.state_of(before);
  std::vector<ir::ValueId> operands = {before};
  for (const ops::StateComponent& component : decl.components) {
    lua_getfield(state, 2, component.name.c_str());
    const auto* value = userdata<GraphValue>(state, -1, kGraphValue);
    if (value == nullptr) {
      raise(state, invalid_data("append to '" + decl.name + "': component '" + component.name + "' is " +
                                describe(state, -1) + ", wanted a graph value"));
    }
    operands.push_back(value->id);
    lua_pop(state, 1);
  }
  for (lua_pushnil(state); lua_next(state, 2) != 0; lua_pop(state, 1)) {
    const std::string name = to_text(state, -2, "component");
    if (decl.component_index(name) < 0)
      raise(state, invalid_data("state '" + decl.name + "' has no component '" + name + "'"));
  }
  push_state_value(state, add_node_one(state, ops::OpKind::kAppend, operands, {}));
  return 1;
}

int state_index(lua_State* state) {
  const std::string key = to_text(state, 2, "field");
  if (key != "append") raise(state, invalid_data("a state has no field '" + key + "'"));
  lua_pushcfunction(state, &append_rows);
  return 1;
}

}  // namespace

void open_attention(lua_State* state) {
  const luaL_Reg value[] = {{"__index", &state_index}, {nullptr, nullptr}};
  new_kind(state, kStateValue, value);
}

}  // namespace firstlight::intake
