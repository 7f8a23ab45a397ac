// SPDX-License-Identifier: Apache-2.0
// The harmless part of Lua's libraries. What runs in C without the step hook is bounded here: patterns (length and
// number of repetitions), string.rep, table.concat; and what could run forever or leak addresses is left out.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "intake/lua/kinds.h"
#include "intake/lua/sandbox.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"
#include "intake/spec_store.h"

namespace firstlight::intake {
namespace {

constexpr size_t kMaxSubject = 512;
constexpr size_t kMaxPattern = 64;
constexpr int kMaxRepetitions = 2;
constexpr int64_t kMaxText = 1 << 20;

// Matching costs at most about subject ^ (repetitions + 1) steps of C, which no hook can interrupt.
void check_pattern(lua_State* state) {
  const std::string subject = to_text(state, 1, "string");
  const std::string pattern = to_text(state, 2, "pattern");
  int repetitions = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '%' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 'b' || next == 'f' || (next >= '0' && next <= '9')) ++repetitions;
    } else if (pattern[i] == '*' || pattern[i] == '+' || pattern[i] == '-' || pattern[i] == '?') {
      ++repetitions;
    }
  }
  if (subject.size() > kMaxSubject || pattern.size() > kMaxPattern || repetitions > kMaxRepetitions) {
    raise(state, invalid_data("string pattern: at most " + std::to_string(kMaxSubject) + " bytes of text, " +
                              std::to_string(kMaxPattern) + " of pattern and " + std::to_string(kMaxRepetitions) +
                              " repetitions"));
  }
}

// Upvalue 1 is the library's own function.
int bounded_pattern(lua_State* state) {
  check_pattern(state);
  sandbox_of(state).charge(200);
  const int count = lua_gettop(state);
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_insert(state, 1);
  lua_call(state, count, LUA_MULTRET);
  return lua_gettop(state);
}

// Upvalue 1: a function of the table library, whose work grows with the table in argument 1.
int charged_table(lua_State* state) {
  if (lua_type(state, 1) == LUA_TTABLE) sandbox_of(state).charge(static_cast<int64_t>(lua_rawlen(state, 1)) / 4);
  const int count = lua_gettop(state);
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_insert(state, 1);
  lua_call(state, count, LUA_MULTRET);
  return lua_gettop(state);
}

int bounded_rep(lua_State* state) {
  const std::string text = to_text(state, 1, "string.rep");
  const std::string separator = lua_isnoneornil(state, 3) ? "" : to_text(state, 3, "string.rep");
  const int64_t count = to_integer(state, 2, "string.rep");
  const auto piece = static_cast<int64_t>(text.size() + separator.size()) + 1;
  if (count > kMaxText / piece) raise(state, invalid_data("string.rep: the result is longer than 1 MiB"));
  std::string out;
  for (int64_t i = 0; i < count; ++i) out += (i == 0 ? "" : separator) + text;
  push(state, out);
  return 1;
}

int safe_tostring(lua_State* state) {
  luaL_checkany(state, 1);
  if (lua_type(state, 1) == LUA_TSTRING) {
    lua_settop(state, 1);
    return 1;
  }
  push(state, describe(state, 1));
  return 1;
}

struct SortedKey {
  bool is_text = false;
  double number = 0;
  std::string text;
  int position = 0;
};

// pairs over a plain table: integers upwards, then strings in byte order, whatever order they were set in.
int pairs_step(lua_State* state) {
  const lua_Integer next = lua_tointeger(state, lua_upvalueindex(2)) + 1;
  lua_pushinteger(state, next);
  lua_replace(state, lua_upvalueindex(2));
  if (lua_rawgeti(state, lua_upvalueindex(1), next) == LUA_TNIL) return 1;
  lua_pushvalue(state, -1);
  lua_rawget(state, 1);
  return 2;
}

int ordered_pairs(lua_State* state) {
  if (luaL_getmetafield(state, 1, "__pairs") != LUA_TNIL) {
    lua_pushvalue(state, 1);
    lua_call(state, 1, 3);
    return 3;
  }
  luaL_checktype(state, 1, LUA_TTABLE);
  std::vector<SortedKey> keys;
  lua_newtable(state);
  for (lua_pushnil(state); lua_next(state, 1) != 0; lua_pop(state, 1)) {
    const int type = lua_type(state, -2);
    if (type != LUA_TNUMBER && type != LUA_TSTRING) {
      raise(state, invalid_data("pairs: a key is " + describe(state, -2) + ", wanted numbers and strings"));
    }
    SortedKey key{
        .is_text = type == LUA_TSTRING, .number = 0, .text = "", .position = static_cast<int>(keys.size()) + 1};
    if (key.is_text) {
      key.text = to_text(state, -2, "key");
    } else {
      key.number = lua_tonumber(state, -2);
    }
    lua_pushvalue(state, -2);
    lua_rawseti(state, -4, key.position);
    keys.push_back(std::move(key));
  }
  std::sort(keys.begin(), keys.end(), [](const SortedKey& a, const SortedKey& b) {
    return std::tie(a.is_text, a.number, a.text) < std::tie(b.is_text, b.number, b.text);
  });
  lua_createtable(state, static_cast<int>(keys.size()), 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    lua_rawgeti(state, -2, keys[i].position);
    lua_rawseti(state, -2, static_cast<lua_Integer>(i) + 1);
  }
  lua_pushinteger(state, 0);
  lua_pushcclosure(state, &pairs_step, 2);
  lua_pushvalue(state, 1);
  lua_pushnil(state);
  return 3;
}

// A module that is loaded while a prompt is rendered knows nothing of it, and so may make markup.
struct OutsidePrompt {
  explicit OutsidePrompt(Tracer& t) : tracer(t), prompt(std::exchange(t.prompt, nullptr)) {}
  ~OutsidePrompt() { tracer.prompt = prompt; }
  OutsidePrompt(const OutsidePrompt&) = delete;
  OutsidePrompt& operator=(const OutsidePrompt&) = delete;
  Tracer& tracer;
  PromptScope* prompt;
};

// require "std.rope": each module runs once; upvalue 1 is the table of results, upvalue 2 the store.
int require_module(lua_State* state) {
  const std::string name = to_text(state, 1, "require");
  if (lua_getfield(state, lua_upvalueindex(1), name.c_str()) != LUA_TNIL) {
    if (lua_isboolean(state, -1)) raise(state, invalid_data("require '" + name + "': the modules require each other"));
    return 1;
  }
  const auto* store = static_cast<const SpecStore*>(lua_touserdata(state, lua_upvalueindex(2)));
  const SpecText* module = store->module(name);
  if (module == nullptr) {
    raise(state, invalid_data("require '" + name + "': no such module; only std and std.* can be required"));
  }
  lua_pushboolean(state, 1);
  lua_setfield(state, lua_upvalueindex(1), name.c_str());
  if (luaL_loadbufferx(state, module->text.data(), module->text.size(), ("@" + module->path).c_str(), "t") != LUA_OK) {
    raise(state, invalid_data(lua_tostring(state, -1)));
  }
  {
    const OutsidePrompt outside(tracer_of(state));
    lua_call(state, 0, 1);
  }
  lua_pushvalue(state, -1);
  lua_setfield(state, lua_upvalueindex(1), name.c_str());
  return 1;
}

// unsupported("..."): the model is understood and refused, which is not the same as a broken file.
int raise_unsupported(lua_State* state) { raise(state, unsupported(to_text(state, 1, "unsupported"))); }

int warn(lua_State* state) {
  Tracer& tracer = tracer_of(state);
  if (tracer.warnings.size() < 100) tracer.warnings.push_back(to_text(state, 1, "warn").substr(0, 500));
  return 0;
}

void keep_fields(lua_State* state, const char* library, lua_CFunction open, std::initializer_list<const char*> names) {
  lua_pushcfunction(state, open);
  push(state, library);
  lua_call(state, 1, 1);
  lua_newtable(state);
  for (const char* name : names) {
    lua_getfield(state, -2, name);
    lua_setfield(state, -2, name);
  }
  lua_remove(state, -2);
}

void open_string(lua_State* state) {
  keep_fields(state, "string", &luaopen_string,
              {"byte", "char", "format", "len", "lower", "upper", "reverse", "sub", "find", "match", "gmatch", "gsub"});
  for (const char* name : {"find", "match", "gmatch", "gsub"}) {
    lua_getfield(state, -1, name);
    lua_pushcclosure(state, &bounded_pattern, 1);
    lua_setfield(state, -2, name);
  }
  lua_pushcfunction(state, &bounded_rep);
  lua_setfield(state, -2, "rep");
  // ("x"):rep goes through the metatable of strings, which must be as harmless.
  push(state, "");
  lua_getmetatable(state, -1);
  lua_pushvalue(state, -3);
  lua_setfield(state, -2, "__index");
  lua_pop(state, 2);
  lua_setglobal(state, "string");
}

}  // namespace

void open_safe_libraries(lua_State* state, const SpecStore& store) {
  keep_fields(state, "_G", &luaopen_base, {"assert", "error", "ipairs", "select", "tonumber", "type"});
  const int base = lua_gettop(state);
  lua_pushglobaltable(state);
  std::vector<std::string> names;
  for (lua_pushnil(state); lua_next(state, -2) != 0; lua_pop(state, 1)) names.push_back(lua_tostring(state, -2));
  for (const std::string& name : names) {
    lua_pushnil(state);
    lua_setfield(state, -2, name.c_str());
  }
  for (lua_pushnil(state); lua_next(state, base) != 0; lua_pop(state, 1)) {
    lua_pushvalue(state, -2);
    lua_pushvalue(state, -2);
    lua_settable(state, base + 1);
  }
  lua_settop(state, base - 1);
  open_string(state);
  keep_fields(state, "math", &luaopen_math,
              {"abs", "ceil",       "cos",  "exp", "floor", "fmod", "huge", "log",       "max",  "maxinteger",
               "min", "mininteger", "modf", "pi",  "sin",   "sqrt", "tan",  "tointeger", "type", "ult"});
  lua_setglobal(state, "math");
  keep_fields(state, "table", &luaopen_table, {"concat", "insert", "remove", "sort", "unpack"});
  for (const char* name : {"concat", "insert", "remove", "sort", "unpack"}) {
    lua_getfield(state, -1, name);
    lua_pushcclosure(state, &charged_table, 1);
    lua_setfield(state, -2, name);
  }
  lua_setglobal(state, "table");
  lua_register(state, "pairs", &ordered_pairs);
  lua_register(state, "tostring", &safe_tostring);
  lua_register(state, "unsupported", &raise_unsupported);
  lua_register(state, "warn", &warn);
  push_null(state);
  lua_setglobal(state, "null");
  lua_newtable(state);
  lua_pushlightuserdata(state, const_cast<SpecStore*>(&store));
  lua_pushcclosure(state, &require_module, 2);
  lua_setglobal(state, "require");
  open_config(state);
  open_weights(state);
  open_graph_values(state);
  open_expressions(state);
  open_operators(state);
  open_attention(state);
  open_attend(state);
  open_states(state);
  open_recurrences(state);
  open_control(state);
  open_prompts(state);
}

}  // namespace firstlight::intake
