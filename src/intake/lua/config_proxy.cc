// SPDX-License-Identifier: Apache-2.0
// The config as a spec sees it. c.key reads (null is `null`, a missing key nil) and records; methods read with a type
// and a default, choose among aliases, and waive. Lists count from 0; #list and pairs() keep file order.
#include <cmath>

#include "intake/config_tree.h"
#include "intake/lua/kinds.h"
#include "intake/lua/sandbox.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

constexpr size_t kMaxReason = 500;

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

const ConfigProxy& self_object(lua_State* state) {
  return *static_cast<ConfigProxy*>(luaL_checkudata(state, 1, kConfigObject));
}

// A member that is neither missing nor null, recorded; nullptr otherwise.
const ConfigNode* present(const ConfigProxy& self, const std::string& key) {
  const ConfigNode* node = self.node->find(key);
  if (node == nullptr) return nullptr;
  if (node->is_leaf()) self.record->touched.insert(join(*self.path, key));
  return node->kind == ConfigNode::Kind::kNull ? nullptr : node;
}

[[noreturn]] void wrong_type(lua_State* state, const ConfigProxy& self, const std::string& key, const ConfigNode& node,
                             std::string_view wanted) {
  raise(state, invalid_data("config key '" + join(*self.path, key) + "': found " + node.to_string() + ", wanted " +
                            std::string(wanted)));
}

int index_object(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "config key");
  luaL_getmetatable(state, kConfigObject);
  lua_getfield(state, -1, "methods");
  if (lua_getfield(state, -1, key.c_str()) != LUA_TNIL) return 1;
  const ConfigNode* node = self.node->find(key);
  if (node == nullptr) return 0;
  push_config(state, *node, keep(state, join(*self.path, key)), *self.record);
  return 1;
}

int object_keys(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  lua_createtable(state, static_cast<int>(self.node->members.size()), 0);
  for (size_t i = 0; i < self.node->members.size(); ++i) {
    push(state, self.node->members[i].first);
    lua_rawseti(state, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

int has_key(lua_State* state) {
  const ConfigNode* node = self_object(state).node->find(to_text(state, 2, "key"));
  lua_pushboolean(state, node != nullptr && node->kind != ConfigNode::Kind::kNull);
  return 1;
}

// The third argument is the default; without one a missing key is an error, with an explicit nil it is nil.
int absent(lua_State* state, const ConfigProxy& self, const std::string& key) {
  if (lua_gettop(state) >= 3) {
    lua_settop(state, 3);
    if (lua_isinteger(state, 3) != 0) self.record->defaults.emplace(join(*self.path, key), lua_tointeger(state, 3));
    return 1;
  }
  raise(state, invalid_data("config key '" + join(*self.path, key) + "' is missing or null"));
}

int read_integer(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "key");
  const ConfigNode* node = present(self, key);
  if (node == nullptr) return absent(state, self, key);
  int64_t value = node->integer;
  if (node->kind == ConfigNode::Kind::kFloat &&
      node->number == static_cast<double>(static_cast<int64_t>(node->number)) && std::abs(node->number) < 9e15) {
    value = static_cast<int64_t>(node->number);
  } else if (node->kind != ConfigNode::Kind::kInt) {
    wrong_type(state, self, key, *node, "an integer");
  }
  lua_pushinteger(state, value);
  return 1;
}

// A whole number of at least one: sizes and counts.
int read_count(lua_State* state) {
  const int results = read_integer(state);
  if (lua_type(state, -1) == LUA_TNUMBER && (lua_tointeger(state, -1) < 1 || lua_tointeger(state, -1) > INT32_MAX)) {
    const ConfigProxy& self = self_object(state);
    const std::string key = to_text(state, 2, "key");
    if (const ConfigNode* node = self.node->find(key))
      wrong_type(state, self, key, *node, "a whole number of at least 1");
  }
  return results;
}

int read_number(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "key");
  const ConfigNode* node = present(self, key);
  if (node == nullptr) return absent(state, self, key);
  if (node->kind != ConfigNode::Kind::kInt && node->kind != ConfigNode::Kind::kFloat) {
    wrong_type(state, self, key, *node, "a number");
  }
  lua_pushnumber(state, node->kind == ConfigNode::Kind::kInt ? static_cast<double>(node->integer) : node->number);
  return 1;
}

int read_bool(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "key");
  const ConfigNode* node = present(self, key);
  if (node == nullptr) return absent(state, self, key);
  if (node->kind != ConfigNode::Kind::kBool) wrong_type(state, self, key, *node, "true or false");
  lua_pushboolean(state, node->boolean ? 1 : 0);
  return 1;
}

int read_text(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "key");
  const ConfigNode* node = present(self, key);
  if (node == nullptr) return absent(state, self, key);
  if (node->kind != ConfigNode::Kind::kString) wrong_type(state, self, key, *node, "a string");
  push(state, node->text);
  return 1;
}

int read_object(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "key");
  const ConfigNode* node = present(self, key);
  if (node == nullptr) return absent(state, self, key);
  if (node->kind != ConfigNode::Kind::kObject) wrong_type(state, self, key, *node, "an object");
  push_config(state, *node, keep(state, join(*self.path, key)), *self.record);
  return 1;
}

int read_list(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "key");
  const ConfigNode* node = present(self, key);
  if (node == nullptr) return absent(state, self, key);
  if (node->kind != ConfigNode::Kind::kList) wrong_type(state, self, key, *node, "a list");
  push_config(state, *node, keep(state, join(*self.path, key)), *self.record);
  return 1;
}

// The value of the first present key among aliases; two that are present must agree. nil when none is.
int read_any(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  luaL_checktype(state, 2, LUA_TTABLE);
  const ConfigNode* found = nullptr;
  std::string found_key;
  for (lua_Integer i = 1; i <= static_cast<lua_Integer>(lua_rawlen(state, 2)); ++i) {
    lua_rawgeti(state, 2, i);
    const std::string key = to_text(state, -1, "key");
    lua_pop(state, 1);
    const ConfigNode* node = present(self, key);
    if (node == nullptr) continue;
    if (found != nullptr && !(*found == *node)) {
      raise(state, invalid_data("config keys '" + found_key + "' and '" + key +
                                "' mean the same and contradict: " + found->to_string() + " and " + node->to_string()));
    }
    if (found == nullptr) found_key = key;
    found = found == nullptr ? node : found;
  }
  if (found == nullptr) return 0;
  push_config(state, *found, keep(state, join(*self.path, found_key)), *self.record);
  return 1;
}

int waive_key(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "key");
  const std::string reason = to_text(state, 3, "the reason of a waiver");
  if (reason.empty()) raise(state, invalid_data("the waiver of '" + key + "' gives no reason"));
  const std::string path = join(*self.path, key);
  const ConfigNode* node = self.node->find(key);
  if (node == nullptr) return 0;
  (node->is_leaf() ? self.record->waived : self.record->waived_objects)[path] = reason.substr(0, kMaxReason);
  return 0;
}

// c:expect(key, value, why): anything but that value (or null, or nothing) is a variant that the spec does not compute.
// A list of values: those that mean the same.
int expect_value(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  const std::string key = to_text(state, 2, "key");
  const ConfigNode* node = present(self, key);
  if (node == nullptr) return 0;
  self.record->pinned.insert(join(*self.path, key));
  push_config(state, *node, keep(state, join(*self.path, key)), *self.record);
  const int found = lua_gettop(state);
  const bool list = lua_type(state, 3) == LUA_TTABLE;
  std::string wanted = list ? "" : describe(state, 3);
  if (!list && lua_compare(state, found, 3, LUA_OPEQ) != 0) return 0;
  for (lua_Integer i = 1; list && lua_rawgeti(state, 3, i) != LUA_TNIL; ++i) {
    if (lua_compare(state, found, -1, LUA_OPEQ) != 0) return 0;
    wanted += (i == 1 ? "" : " or ") + describe(state, -1);
    lua_settop(state, found);
  }
  lua_settop(state, found);
  std::string message = "config key '" + join(*self.path, key) + "': found " + node->to_string() + ", wanted " + wanted;
  if (lua_type(state, 4) == LUA_TSTRING) message += ": " + to_text(state, 4, "why");
  raise(state, unsupported(std::move(message)));
}

int next_member(lua_State* state) {
  const ConfigProxy& self = self_object(state);
  size_t next = 0;
  if (lua_type(state, 2) == LUA_TSTRING) {
    const std::string key = to_text(state, 2, "key");
    while (next < self.node->members.size() && self.node->members[next].first != key) ++next;
    ++next;
  }
  if (next >= self.node->members.size()) return 0;
  const auto& [key, node] = self.node->members[next];
  push(state, key);
  push_config(state, node, keep(state, join(*self.path, key)), *self.record);
  return 2;
}

int object_pairs(lua_State* state) {
  self_object(state);
  lua_pushcfunction(state, &next_member);
  lua_pushvalue(state, 1);
  return 2;
}

const ConfigProxy& self_list(lua_State* state) {
  return *static_cast<ConfigProxy*>(luaL_checkudata(state, 1, kConfigList));
}

int index_list(lua_State* state) {
  const ConfigProxy& self = self_list(state);
  touch(self);
  const int64_t i = to_integer(state, 2, "index of a config list");
  if (i < 0 || i >= static_cast<int64_t>(self.node->items.size())) return 0;
  const ConfigNode& item = self.node->items[static_cast<size_t>(i)];
  const std::string path = *self.path + "[" + std::to_string(i) + "]";
  if (!self.leaf && item.is_leaf()) self.record->touched.insert(path);  // a scalar beside an object
  push_config(state, item, keep(state, path), *self.record);
  return 1;
}

int list_length(lua_State* state) {
  touch(self_list(state));
  lua_pushinteger(state, static_cast<lua_Integer>(self_list(state).node->items.size()));
  return 1;
}

}  // namespace

void touch(const ConfigProxy& leaf) {
  if (leaf.leaf) leaf.record->touched.insert(*leaf.path);
}

void push_config(lua_State* state, const ConfigNode& node, const std::string& path, ConfigRecord& record) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      push_null(state);
      break;
    case ConfigNode::Kind::kBool:
      lua_pushboolean(state, node.boolean ? 1 : 0);
      break;
    case ConfigNode::Kind::kInt:
      lua_pushinteger(state, node.integer);
      break;
    case ConfigNode::Kind::kFloat:
      lua_pushnumber(state, node.number);
      break;
    case ConfigNode::Kind::kString:
      push(state, node.text);
      break;
    case ConfigNode::Kind::kList:
      sandbox_of(state).charge(static_cast<int64_t>(node.items.size() / 16));  // is_leaf looks at each
      [[fallthrough]];
    case ConfigNode::Kind::kObject:
      push_userdata<ConfigProxy>(state, node.kind == ConfigNode::Kind::kList ? kConfigList : kConfigObject) = {
          &node, &path, &record, node.is_leaf()};
      return;
  }
  if (path.find('[') == std::string::npos) record.touched.insert(path);
}

void open_config(lua_State* state) {
  const luaL_Reg object[] = {{"__index", &index_object}, {"__pairs", &object_pairs}, {nullptr, nullptr}};
  new_kind(state, kConfigObject, object);
  const luaL_Reg methods[] = {{"has", &has_key},        {"int", &read_integer},    {"count", &read_count},
                              {"number", &read_number}, {"bool", &read_bool},      {"string", &read_text},
                              {"object", &read_object}, {"list", &read_list},      {"any", &read_any},
                              {"waive", &waive_key},    {"expect", &expect_value}, {"keys", &object_keys},
                              {nullptr, nullptr}};
  luaL_getmetatable(state, kConfigObject);
  luaL_newlib(state, methods);
  lua_setfield(state, -2, "methods");
  lua_pop(state, 1);
  const luaL_Reg list[] = {{"__index", &index_list}, {"__len", &list_length}, {nullptr, nullptr}};
  new_kind(state, kConfigList, list);
}

}  // namespace firstlight::intake
