// SPDX-License-Identifier: Apache-2.0
// Small tools around the Lua stack that all builtins share: raising a Status, reading typed arguments and table fields.
// Everything here may raise a Lua error, which unwinds as a C++ exception.
#pragma once

#include <cstdint>
#include <lua.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::intake {

struct Tracer;
Tracer& tracer_of(lua_State* state);

// Raises `status` as a Lua error that begins with file and line of the calling spec code.
[[noreturn]] void raise(lua_State* state, const Status& status);

// The value of a result, or raises its status.
template <typename T>
T take(lua_State* state, Result<T> result) {
  if (!result.ok()) raise(state, result.status());
  return std::move(result).value();
}
void take(lua_State* state, const Status& status);

void push(lua_State* state, std::string_view text);

// What luaL_tolstring would say, without addresses: "nil", "a table", "3", "\"x\"", "a graph value".
std::string describe(lua_State* state, int index);

// Userdata of the kind whose metatable is registered under `name`; nullptr: something else.
template <typename T>
T* userdata(lua_State* state, int index, const char* name) {
  return static_cast<T*>(luaL_testudata(state, index, name));
}

// Makes a userdata of trivially destructible T.
template <typename T>
T& push_userdata(lua_State* state, const char* name) {
  static_assert(std::is_trivially_destructible_v<T>);
  void* memory = lua_newuserdatauv(state, sizeof(T), 0);
  luaL_setmetatable(state, name);
  return *new (memory) T();
}

// Argument or field reading; `what` names it in messages.
int64_t to_integer(lua_State* state, int index, std::string_view what);
double to_number(lua_State* state, int index, std::string_view what);
std::string to_text(lua_State* state, int index, std::string_view what);
std::vector<int64_t> to_integers(lua_State* state, int index, std::string_view what);  // a Lua list or a config list
std::vector<double> to_numbers(lua_State* state, int index, std::string_view what);

// Registers a metatable with these functions under `name` and hides it from specs.
void new_kind(lua_State* state, const char* name, const luaL_Reg* functions);

// JSON null.
void push_null(lua_State* state);
bool is_null(lua_State* state, int index);

}  // namespace firstlight::intake
