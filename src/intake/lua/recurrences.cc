// SPDX-License-Identifier: Apache-2.0
// Operators on a state that is a tensor of its own: recur{ form = … }, conv1d{…}, shift{…} and recent_tokens. Each
// reads and updates the state's component; the handle moves on to the state after it.
#include <algorithm>
#include <array>

#include "intake/lua/operators.h"
#include "intake/lua/stack.h"
#include "intake/lua/states.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

using ops::OpKind;

// Tokens in the order of the batch are what a recurrence runs over; rows picked out of it have no order.
void want_tokens(lua_State* state, ir::ValueId id, const std::string& what) {
  const tensor::Type& type = tracer_of(state).builder.type(id);
  if (!type.shape.empty() && type.shape[0] == tensor::Dim(1, tensor::Symbol::kTokens)) return;
  raise(state, invalid_data(what + " is " + type.to_string() + ", wanted one row per token, [T, …]"));
}

// The call's table is at index 1: operands by the names of the operator's row, `state`, and attributes.
int recurrence(lua_State* state, OpKind op, std::string_view component) {
  const ops::OpDef& def = ops::op_def(op);
  const std::string name(def.name);
  std::vector<std::string_view> own = {"form"};
  for (const ops::OperandDef& operand : def.operands) own.push_back(operand.name);
  ops::Attributes attributes = read_attributes(state, 1, op, own);
  if (!attributes.has("component")) attributes.set("component", std::string(component));
  std::vector<ir::ValueId> operands;
  StateValue* handle = nullptr;
  for (const ops::OperandDef& operand : def.operands) {
    const std::string what = name + ", " + std::string(operand.name);
    const int type = lua_getfield(state, 1, std::string(operand.name).c_str());
    if (operand.is_state) {
      handle = &state_operand(state, -1, what.c_str());
      operands.push_back(handle->id);
    } else if (type != LUA_TNIL || operand.arity == ops::OperandDef::Arity::kOne) {
      const auto* value = userdata<GraphValue>(state, -1, kGraphValue);
      if (value == nullptr)
        raise(state, invalid_data(what + ": found " + describe(state, -1) + ", wanted a graph value"));
      operands.push_back(value->id);
    }
    lua_pop(state, 1);
  }
  want_tokens(state, operands[0], name + ", " + std::string(def.operands[0].name));
  const auto results = add_node(state, op, operands, std::move(attributes));
  handle->id = results[1];
  push_graph_value(state, results[0]);
  return 1;
}

struct Form {
  std::string_view name;
  OpKind op;
};
constexpr std::array<Form, 5> kForms = {{{"gla", OpKind::kRecurGla},
                                         {"delta", OpKind::kRecurDelta},
                                         {"selective", OpKind::kRecurSelective},
                                         {"elementwise", OpKind::kRecurElementwise},
                                         {"dplr", OpKind::kRecurDplr}}};

// recur{ form = "delta", q = …, state = batch.state.s[i], component = "s" }
int recur(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  lua_settop(state, 1);
  lua_getfield(state, 1, "form");
  const std::string wanted = to_text(state, -1, "recur, form");
  lua_settop(state, 1);
  const auto* form = std::find_if(kForms.begin(), kForms.end(), [&](const Form& f) { return f.name == wanted; });
  if (form == kForms.end()) {
    raise(state, invalid_data("recur: form '" + wanted + "', wanted gla, delta, selective, elementwise or dplr"));
  }
  return recurrence(state, form->op, "s");
}

// conv1d{ x = …, weight = …, bias = …, state = …, component = "conv" }
int conv1d(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  lua_settop(state, 1);
  return recurrence(state, OpKind::kConv1d, "conv");
}

// shift{ x = …, state = …, component = "shift" }
int shift(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  lua_settop(state, 1);
  return recurrence(state, OpKind::kShift, "shift");
}

// recent_tokens(batch.state.ids[i], { count = n })
int recent_tokens(lua_State* state) {
  StateValue& handle = state_operand(state, 1, "recent_tokens");
  luaL_checktype(state, 2, LUA_TTABLE);
  ops::Attributes attributes = read_attributes(state, 2, OpKind::kRecentTokens, {});
  const ir::Graph& graph = tracer_of(state).graph;
  const auto tokens = std::find_if(graph.body.parameters.begin(), graph.body.parameters.end(),
                                   [&](ir::ValueId id) { return graph.value(id).name == "tokens"; });
  if (tokens == graph.body.parameters.end()) raise(state, invalid_data("recent_tokens: there are no tokens here"));
  const std::array operands = {*tokens, handle.id};
  const auto results = add_node(state, OpKind::kRecentTokens, operands, std::move(attributes));
  handle.id = results[1];
  push_graph_value(state, results[0]);
  return 1;
}

}  // namespace

void open_recurrences(lua_State* state) {
  lua_register(state, "recur", &recur);
  lua_register(state, "conv1d", &conv1d);
  lua_register(state, "shift", &shift);
  lua_register(state, "recent_tokens", &recent_tokens);
}

}  // namespace firstlight::intake
