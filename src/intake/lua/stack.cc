// SPDX-License-Identifier: Apache-2.0
#include "intake/lua/stack.h"

#include <cmath>

#include "intake/config_tree.h"
#include "intake/lua/kinds.h"
#include "intake/lua/sandbox.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

const char kNull = 0;
constexpr int64_t kMaxListLength = 1 << 16;
constexpr size_t kMaxKeptText = 1200;
constexpr int64_t kMaxKeptBytes = int64_t{32} << 20;

double list_item(lua_State* state, const ConfigNode& item, std::string_view what) {
  if (item.kind == ConfigNode::Kind::kInt) return static_cast<double>(item.integer);
  if (item.kind == ConfigNode::Kind::kFloat) return item.number;
  raise(state, invalid_data(std::string(what) + ": found " + item.to_string() + " in the list, wanted numbers"));
}

}  // namespace

Tracer& tracer_of(lua_State* state) { return **static_cast<Tracer**>(lua_getextraspace(state)); }

void raise(lua_State* state, const Status& status) {
  tracer_of(state).error_code = status.code();
  luaL_where(state, 1);
  push(state, status.message());
  lua_concat(state, 2);
  lua_error(state);
  __builtin_unreachable();  // lua_error does not return
}

void note_lines(lua_State* state) {
  constexpr int kMostLines = 3;  // the operator's, and who called that
  Tracer& tracer = tracer_of(state);
  if (tracer.probing) return;
  std::string lines;
  lua_Debug frame;
  int count = 0;
  for (int level = 0; count < kMostLines && lua_getstack(state, level, &frame) != 0; ++level) {
    lua_getinfo(state, "Sl", &frame);
    if (frame.currentline <= 0) continue;
    const std::string line = std::string(frame.short_src) + ":" + std::to_string(frame.currentline);
    lines += (lines.empty() ? "" : ", ") + line;
    ++count;
  }
  tracer.builder.set_made_at(std::move(lines));
}

void take(lua_State* state, const Status& status) {
  if (!status.ok()) raise(state, status);
}

const std::string& keep(lua_State* state, const std::string& text) {
  Tracer& tracer = tracer_of(state);
  const auto [it, added] = tracer.strings.insert(text);
  if (added) tracer.kept_bytes += static_cast<int64_t>(text.size()) + 64;
  if (text.size() > kMaxKeptText || tracer.kept_bytes > kMaxKeptBytes) {
    raise(state, invalid_data("the names of scopes or config keys are too long or too many"));
  }
  return *it;
}

void push(lua_State* state, std::string_view text) { lua_pushlstring(state, text.data(), text.size()); }

std::string describe(lua_State* state, int index) {
  switch (lua_type(state, index)) {
    case LUA_TNIL:
    case LUA_TNONE:
      return "nil";
    case LUA_TBOOLEAN:
      return lua_toboolean(state, index) != 0 ? "true" : "false";
    case LUA_TNUMBER: {
      lua_pushvalue(state, index);
      const std::string text = lua_tostring(state, -1);
      lua_pop(state, 1);
      return text;
    }
    case LUA_TSTRING:
      return "\"" + std::string(lua_tostring(state, index)).substr(0, 100) + "\"";
    case LUA_TTABLE:
      return "a table";
    case LUA_TFUNCTION:
      return "a function";
    default:
      break;
  }
  if (is_null(state, index)) return "null";
  if (luaL_getmetafield(state, index, "__name") == LUA_TSTRING) {
    std::string name = lua_tostring(state, -1);
    lua_pop(state, 1);
    return name;
  }
  return "a userdata";
}

int64_t to_integer(lua_State* state, int index, std::string_view what) {
  int is_integer = 0;
  if (lua_type(state, index) == LUA_TNUMBER) {
    const lua_Integer value = lua_tointegerx(state, index, &is_integer);
    if (is_integer != 0) return value;
  }
  raise(state, invalid_data(std::string(what) + ": found " + describe(state, index) + ", wanted an integer"));
}

double to_number(lua_State* state, int index, std::string_view what) {
  if (lua_type(state, index) == LUA_TNUMBER) {
    const double value = lua_tonumber(state, index);
    if (std::isnan(value)) raise(state, invalid_data(std::string(what) + ": found NaN, wanted a number"));
    return value;
  }
  raise(state, invalid_data(std::string(what) + ": found " + describe(state, index) + ", wanted a number"));
}

std::string to_text(lua_State* state, int index, std::string_view what) {
  size_t length = 0;
  if (lua_type(state, index) == LUA_TSTRING) {
    const char* text = lua_tolstring(state, index, &length);
    return {text, length};
  }
  raise(state, invalid_data(std::string(what) + ": found " + describe(state, index) + ", wanted a string"));
}

std::vector<double> to_numbers(lua_State* state, int index, std::string_view what) {
  std::vector<double> out;
  if (const auto* list = userdata<ConfigProxy>(state, index, kConfigList)) {
    touch(*list);
    for (const ConfigNode& item : list->node->items) out.push_back(list_item(state, item, what));
    return out;
  }
  if (lua_type(state, index) != LUA_TTABLE) {
    raise(state, invalid_data(std::string(what) + ": found " + describe(state, index) + ", wanted a list of numbers"));
  }
  index = lua_absindex(state, index);
  const auto length = static_cast<int64_t>(lua_rawlen(state, index));
  sandbox_of(state).charge(4 * length);
  if (length > kMaxListLength) raise(state, invalid_data(std::string(what) + ": the list is too long"));
  for (int64_t i = 1; i <= length; ++i) {
    lua_rawgeti(state, index, i);
    out.push_back(to_number(state, -1, what));
    lua_pop(state, 1);
  }
  return out;
}

std::vector<int64_t> to_integers(lua_State* state, int index, std::string_view what) {
  std::vector<int64_t> out;
  for (const double value : to_numbers(state, index, what)) {
    if (value != std::floor(value) || std::abs(value) > 9e15) {
      raise(state, invalid_data(std::string(what) + ": found " + std::to_string(value) + ", wanted integers"));
    }
    out.push_back(static_cast<int64_t>(value));
  }
  return out;
}

void new_kind(lua_State* state, const char* name, const luaL_Reg* functions) {
  luaL_newmetatable(state, name);
  luaL_setfuncs(state, functions, 0);
  lua_pop(state, 1);
}

void push_null(lua_State* state) { lua_pushlightuserdata(state, const_cast<char*>(&kNull)); }

bool is_null(lua_State* state, int index) {
  return lua_type(state, index) == LUA_TLIGHTUSERDATA && lua_touserdata(state, index) == &kNull;
}

}  // namespace firstlight::intake
