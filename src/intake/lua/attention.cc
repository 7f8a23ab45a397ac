// SPDX-License-Identifier: Apache-2.0
// Attention: state:append{…}, and attend{…} with its traced score function.
#include "intake/lua/kinds.h"
#include "intake/lua/operators.h"
#include "intake/lua/stack.h"
#include "intake/lua/states.h"
#include "intake/lua/traced_function.h"
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

ops::Expression score_of(lua_State* state, int table) {
  if (lua_getfield(state, table, "score") == LUA_TNIL) {
    lua_pop(state, 1);
    return {};
  }
  const TraceArgument arguments[] = {{.input = 0}, {.input = 1}, {.input = 2}, {.input = 3}};
  ops::Expression score = trace_function(state, -1, arguments, "attend, score");
  lua_pop(state, 1);
  return score;
}

// attend{ q = q, state = s, scale = …, key = "k", value = "v", window = …, sinks = …, score = function(s, qpos, kpos,
// head) … }
int attend(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  constexpr std::string_view kOperands[] = {"q", "state", "sinks", "score"};
  ops::Attributes attributes = read_attributes(state, 1, ops::OpKind::kAttend, kOperands);
  if (!attributes.has("key")) attributes.set("key", std::string("k"));
  if (!attributes.has("value")) attributes.set("value", std::string("v"));
  attributes.set("score", score_of(state, 1));
  lua_settop(state, 1);
  lua_getfield(state, 1, "q");
  lua_getfield(state, 1, "state");
  lua_getfield(state, 1, "sinks");
  const auto* q = userdata<GraphValue>(state, 2, kGraphValue);
  if (q == nullptr) raise(state, invalid_data("attend, q: found " + describe(state, 2) + ", wanted a graph value"));
  std::vector<ir::ValueId> operands = {q->id, state_operand(state, 3, "attend, state").id};
  if (lua_type(state, 4) != LUA_TNIL) operands.push_back(graph_operand(state, 4, "attend, sinks"));
  push_graph_value(state, add_node_one(state, ops::OpKind::kAttend, operands, std::move(attributes)));
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
  lua_register(state, "attend", &attend);
}

}  // namespace firstlight::intake
