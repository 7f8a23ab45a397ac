// SPDX-License-Identifier: Apache-2.0
#include "intake/lua/architecture.h"

#include "intake/lua/stack.h"

namespace firstlight::intake {
namespace {

struct Part {
  const char* name;
  int type;
  bool required;
};

constexpr Part kParts[] = {{"matches", LUA_TTABLE, true},    {"parameters", LUA_TFUNCTION, true},
                           {"state", LUA_TFUNCTION, true},   {"forward", LUA_TFUNCTION, true},
                           {"render", LUA_TFUNCTION, false}, {"predict", LUA_TTABLE, false}};

}  // namespace

int declare_architecture(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  for (lua_pushnil(state); lua_next(state, 1) != 0; lua_pop(state, 1)) {
    const std::string field = to_text(state, -2, "a field of architecture");
    bool known = false;
    for (const Part& part : kParts) known = known || (field == part.name && lua_type(state, -1) == part.type);
    if (!known) raise(state, invalid_data("architecture: field '" + field + "' is unknown or of the wrong type"));
  }
  for (const Part& part : kParts) {
    if (part.required && lua_getfield(state, 1, part.name) == LUA_TNIL)
      raise(state, invalid_data(std::string("architecture: no field '") + part.name + "'"));
    lua_settop(state, 1);
  }
  return 1;
}

bool matches_type(lua_State* state, int spec, const std::string& model_type, std::vector<std::string>* all) {
  bool found = false;
  lua_getfield(state, spec, "matches");
  if (lua_type(state, -1) == LUA_TTABLE && lua_getfield(state, -1, "model_type") == LUA_TTABLE) {
    const auto count = static_cast<lua_Integer>(lua_rawlen(state, -1));
    for (lua_Integer i = 1; i <= count; ++i) {
      if (lua_rawgeti(state, -1, i) == LUA_TSTRING) {
        const std::string type = lua_tostring(state, -1);
        found = found || type == model_type;
        if (all != nullptr) all->push_back(type);
      }
      lua_pop(state, 1);
    }
    lua_pop(state, 1);
  }
  lua_pop(state, 1);
  return found;
}

}  // namespace firstlight::intake
