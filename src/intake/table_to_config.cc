// SPDX-License-Identifier: Apache-2.0
#include "intake/table_to_config.h"

#include <algorithm>

#include "intake/lua/kinds.h"
#include "intake/lua/stack.h"

namespace firstlight::intake {
namespace {

constexpr int kMaxDepth = 16;
constexpr size_t kMaxItems = 100'000;

ConfigNode list_of(lua_State* state, int index, int depth) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kList;
  const size_t count = lua_rawlen(state, index);
  if (count > kMaxItems)
    raise(state, invalid_data("a derived config has a list of " + std::to_string(count) + " items"));
  for (size_t i = 1; i <= count; ++i) {
    lua_rawgeti(state, index, static_cast<lua_Integer>(i));
    node.items.push_back(table_to_config(state, -1, depth + 1));
    lua_pop(state, 1);
  }
  return node;
}

ConfigNode object_of(lua_State* state, int index, int depth) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kObject;
  for (lua_pushnil(state); lua_next(state, index) != 0; lua_pop(state, 1)) {
    std::string key = to_text(state, -2, "a key of a derived config");
    node.members.emplace_back(std::move(key), table_to_config(state, -1, depth + 1));
  }
  std::sort(node.members.begin(), node.members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return node;
}

}  // namespace

ConfigNode table_to_config(lua_State* state, int index, int depth) {
  index = lua_absindex(state, index);
  if (depth > kMaxDepth) raise(state, invalid_data("a derived config is nested too deep"));
  switch (lua_type(state, index)) {
    case LUA_TBOOLEAN:
      return ConfigNode::of_bool(lua_toboolean(state, index) != 0);
    case LUA_TSTRING:
      return ConfigNode::of_string(to_text(state, index, "a derived config"));
    case LUA_TNUMBER:
      if (lua_isinteger(state, index) != 0) return ConfigNode::of_int(lua_tointeger(state, index));
      return ConfigNode::of_float(lua_tonumber(state, index));
    case LUA_TTABLE:
      return lua_rawlen(state, index) > 0 ? list_of(state, index, depth) : object_of(state, index, depth);
    default:
      break;
  }
  if (is_null(state, index)) return {};
  if (const auto* proxy = userdata<ConfigProxy>(state, index, kConfigList)) {
    touch(*proxy);
    return *proxy->node;
  }
  raise(state, invalid_data("a derived config holds " + describe(state, index)));
}

}  // namespace firstlight::intake
