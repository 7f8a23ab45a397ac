// SPDX-License-Identifier: Apache-2.0
#include "intake/lua/states.h"

#include <algorithm>

#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr size_t kMaxRank = 6;
constexpr int64_t kMaxRate = 1 << 20;

// One name of the table that `state` returned.
struct Declaration {
  std::string name;
  std::string kind;
  int table = 0;  // index of the declaration
};

std::string where(const Declaration& decl) { return "state '" + decl.name + "'"; }

// The value of field `name`, or of the function that stands there for this layer; left on the stack.
int push_for_layer(lua_State* state, const Declaration& decl, const char* name, int64_t layer) {
  const int type = lua_getfield(state, decl.table, name);
  if (type != LUA_TFUNCTION) return type;
  lua_pushinteger(state, layer);
  lua_call(state, 1, 1);
  return lua_type(state, -1);
}

int64_t window_of(lua_State* state, const Declaration& decl, int64_t layer) {
  const int type = push_for_layer(state, decl, "window", layer);
  const int64_t window = type == LUA_TNIL ? 0 : to_integer(state, -1, "window");
  lua_pop(state, 1);
  if (window < 0) raise(state, invalid_data("window: found " + std::to_string(window) + ", wanted 0 or more"));
  return window;
}

// The names of the parts, sorted, so that a declaration gives the same graph each time.
std::vector<std::string> component_names(lua_State* state, const Declaration& decl) {
  std::vector<std::string> names;
  for (lua_pushnil(state); lua_next(state, decl.table) != 0; lua_pop(state, 1)) {
    const std::string field = to_text(state, -2, "a field of a state");
    if (field != "kind" && field != "layers" && field != "window" && field != "per" && field != "rate")
      names.push_back(field);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<ops::StateComponent> components_of(lua_State* state, const Declaration& decl, int64_t layer) {
  const bool fixed = decl.kind == "fixed";
  std::vector<ops::StateComponent> components;
  for (const std::string& name : component_names(state, decl)) {
    push_for_layer(state, decl, name.c_str(), layer);
    const auto sizes = to_integers(state, -1, where(decl) + ", component " + name);
    lua_pop(state, 1);
    const bool fits = (fixed ? !sizes.empty() && sizes.size() <= kMaxRank : sizes.size() == 2) &&
                      std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 1; });
    if (!fits) {
      raise(state, invalid_data(where(decl) + ", component " + name +
                                (fixed ? ": wanted the sizes of a tensor" : ": wanted { heads, width }")));
    }
    int64_t heads = 1;
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      if (__builtin_mul_overflow(heads, sizes[i], &heads)) raise(state, invalid_data(where(decl) + " is too large"));
    }
    int64_t elements = 0;
    if (__builtin_mul_overflow(heads, sizes.back(), &elements) || elements > (int64_t{1} << 40))
      raise(state, invalid_data(where(decl) + " is too large"));
    components.push_back({.name = name, .heads = heads, .width = sizes.back()});
  }
  if (components.empty()) raise(state, invalid_data(where(decl) + " has no components"));
  return components;
}

ops::StateDecl declaration_of(lua_State* state, const Declaration& decl, int64_t layer) {
  ops::StateDecl out;
  out.name = decl.name + "." + std::to_string(layer);
  if (decl.kind == "history") {
    out.kind = ops::StateKind::kTokenHistory;
    out.window = window_of(state, decl, layer);
    if (out.window < 1) raise(state, invalid_data(where(decl) + ": history wants window = 1 or more"));
    if (!component_names(state, decl).empty())
      raise(state, invalid_data(where(decl) + ": history has no components, it holds token ids"));
    out.components = {{.name = "ids", .heads = 1, .width = 1, .dtype = tensor::DType::kI32}};
    return out;
  }
  out.components = components_of(state, decl, layer);
  if (decl.kind == "fixed") {
    if (window_of(state, decl, layer) != 0) raise(state, invalid_data(where(decl) + ": fixed has no window"));
    out.kind = ops::StateKind::kFixed;
    out.rewind = ops::Rewind::kSnapshot;
    return out;
  }
  out.window = window_of(state, decl, layer);
  if (decl.kind == "rate_log") {
    push_for_layer(state, decl, "rate", layer);
    out.kind = ops::StateKind::kRateLog;
    out.rate = to_integer(state, -1, where(decl) + ", rate");
    lua_pop(state, 1);
    if (out.rate < 1 || out.rate > kMaxRate || out.window != 0) {
      raise(state, invalid_data(where(decl) + ": rate_log wants rate = 1 to " + std::to_string(kMaxRate) +
                                " and has no window"));
    }
    return out;
  }
  if (out.window > 0) out.kind = ops::StateKind::kWindowLog;
  return out;
}

int64_t layer_count(lua_State* state, const Declaration& decl, int parameters) {
  const int type = lua_getfield(state, decl.table, "layers");
  if (type == LUA_TNIL || type == LUA_TFUNCTION) {
    lua_pop(state, 1);
    lua_getfield(state, parameters, "layers");
  }
  const int64_t layers = to_integer(state, -1, where(decl) + ", layers");
  lua_pop(state, 1);
  if (layers < 1 || layers > kMaxLayers) {
    raise(state, invalid_data(where(decl) + ": found " + std::to_string(layers) + " layers, wanted 1 to " +
                              std::to_string(kMaxLayers)));
  }
  return layers;
}

// Whether this layer owns a state of the declaration.
bool owns(lua_State* state, const Declaration& decl, int64_t layer) {
  bool answer = true;
  if (lua_getfield(state, decl.table, "layers") == LUA_TFUNCTION) {
    lua_pushinteger(state, layer);
    lua_call(state, 1, 1);
    if (lua_type(state, -1) != LUA_TBOOLEAN) {
      raise(state, invalid_data(where(decl) + ", layers(" + std::to_string(layer) + "): found " + describe(state, -1) +
                                ", wanted true or false"));
    }
    answer = lua_toboolean(state, -1) != 0;
  }
  lua_pop(state, 1);
  return answer;
}

// __index of a list of states: upvalue 1 is its name.
int no_such_layer(lua_State* state) {
  const std::string name = to_text(state, lua_upvalueindex(1), "state");
  raise(state, invalid_data("state '" + name + "' has no layer " + describe(state, 2)));
}

void declare_layers(lua_State* state, Declaration decl, int parameters) {
  if (lua_type(state, decl.table) != LUA_TTABLE || lua_getfield(state, decl.table, "kind") != LUA_TSTRING) {
    raise(state, invalid_data(where(decl) + " is " + describe(state, decl.table) +
                              ", wanted append{…}, rate_log{…}, fixed{…} or history{…}"));
  }
  decl.kind = to_text(state, -1, "kind");
  lua_pop(state, 1);
  if (decl.kind != "append" && decl.kind != "rate_log" && decl.kind != "fixed" && decl.kind != "history") {
    raise(state, invalid_data(where(decl) + ": kind '" + decl.kind + "', wanted append, rate_log, fixed or history"));
  }
  const int64_t layers = layer_count(state, decl, parameters);
  lua_newtable(state);
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (!owns(state, decl, layer)) continue;
    push_state_value(state, take(state, tracer_of(state).builder.add_state(declaration_of(state, decl, layer))));
    lua_rawseti(state, -2, layer);
  }
  lua_newtable(state);
  push(state, decl.name);
  lua_pushcclosure(state, &no_such_layer, 1);
  lua_setfield(state, -2, "__index");
  lua_setmetatable(state, -2);
}

// append{ layers = n or function(layer), k = { heads, width }, …, window = w or function(layer) } and its kin: the
// declaration itself is a plain table with its kind, upvalue 1.
int declare(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  lua_settop(state, 1);
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_setfield(state, 1, "kind");
  return 1;
}

}  // namespace

StateValue& state_operand(lua_State* state, int index, const char* what) {
  auto* value = userdata<StateValue>(state, index, kStateValue);
  if (value == nullptr) {
    raise(state, invalid_data(std::string(what) + ": found " + describe(state, index) + ", wanted a state"));
  }
  return *value;
}

void declare_states(lua_State* state, int index, int parameters) {
  if (lua_type(state, index) != LUA_TTABLE)
    raise(state, invalid_data("state: found " + describe(state, index) + ", wanted { name = append{…} }"));
  std::vector<std::string> names;
  for (lua_pushnil(state); lua_next(state, index) != 0; lua_pop(state, 1))
    names.push_back(to_text(state, -2, "the name of a state"));
  std::sort(names.begin(), names.end());
  lua_newtable(state);
  for (const std::string& name : names) {
    lua_getfield(state, index, name.c_str());
    declare_layers(state, {.name = name, .kind = "", .table = lua_gettop(state)}, parameters);
    lua_remove(state, -2);
    lua_setfield(state, -2, name.c_str());
  }
}

void open_states(lua_State* state) {
  for (const char* kind : {"append", "rate_log", "fixed", "history"}) {
    push(state, kind);
    lua_pushcclosure(state, &declare, 1);
    lua_setglobal(state, kind);
  }
}

}  // namespace firstlight::intake
