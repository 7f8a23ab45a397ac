// SPDX-License-Identifier: Apache-2.0
// The library `prompt`: markup, refuse, kind, json, parse, and what the bounded string patterns cannot do to long
// texts: trim, lines, replace. Lists count from 0, as a config's do; pairs() keeps the order of the JSON text.
#include "intake/lua/prompts.h"

#include <algorithm>
#include <limits>

#include "intake/lua/kinds.h"
#include "intake/lua/sandbox.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"
#include "text/jinja/numbers.h"

namespace firstlight::intake {
namespace {

constexpr const char* kJsonObject = "a JSON object";
constexpr const char* kJsonList = "a JSON list";
constexpr const char* kJsonNumber = "a JSON number";  // one that no Lua number holds
constexpr const char* kMarkup = "markup";
constexpr size_t kMaxMarkup = size_t{1} << 20;  // bytes, of all modules together
constexpr int64_t kBytesPerStep = 16;

struct JsonHandle {
  const Json* json = nullptr;
};

struct Markup {
  const std::string* text = nullptr;
};

const Json& json_at(lua_State* state, int index, const char* kind) {
  return *static_cast<JsonHandle*>(luaL_checkudata(state, index, kind))->json;
}

// A handle of any kind; null: something else.
const Json* handle_at(lua_State* state, int index) {
  for (const char* kind : {kJsonObject, kJsonList, kJsonNumber}) {
    if (const auto* handle = userdata<JsonHandle>(state, index, kind)) return handle->json;
  }
  return nullptr;
}

void charge_bytes(lua_State* state, size_t bytes) {
  sandbox_of(state).charge(1 + static_cast<int64_t>(bytes) / kBytesPerStep);
}

PromptScope& scope_of(lua_State* state, const char* what) {
  PromptScope* scope = tracer_of(state).prompt;
  if (scope == nullptr) raise(state, invalid_data(std::string(what) + " is for render functions"));
  return *scope;
}

void spend(lua_State* state, PromptScope& scope, size_t bytes) {
  charge_bytes(state, bytes);
  scope.bytes_left -= static_cast<int64_t>(bytes);
  if (scope.bytes_left < 0) raise(state, invalid_data("the prompt needs more memory than a render function may use"));
}

int index_object(lua_State* state) {
  const Json& object = json_at(state, 1, kJsonObject);
  if (lua_type(state, 2) != LUA_TSTRING) return 0;
  sandbox_of(state).charge(static_cast<int64_t>(object.size()) / 8);
  const auto found = object.find(to_text(state, 2, "key"));
  if (found == object.end()) return 0;
  push_json(state, *found);
  return 1;
}

int index_list(lua_State* state) {
  const Json& list = json_at(state, 1, kJsonList);
  const int64_t i = to_integer(state, 2, "index of a JSON list");
  if (i < 0 || i >= static_cast<int64_t>(list.size())) return 0;
  push_json(state, list[static_cast<size_t>(i)]);
  return 1;
}

int length(lua_State* state) {
  lua_pushinteger(state, static_cast<lua_Integer>(handle_at(state, 1)->size()));
  return 1;
}

// Upvalue 1: the next position.
int step(lua_State* state) {
  const Json* json = handle_at(state, 1);
  const lua_Integer at = lua_tointeger(state, lua_upvalueindex(1));
  if (json == nullptr || at >= static_cast<lua_Integer>(json->size())) return 0;
  lua_pushinteger(state, at + 1);
  lua_replace(state, lua_upvalueindex(1));
  if (json->is_object()) {
    const auto& [key, value] = json->get_ref<const Json::object_t&>().begin()[static_cast<std::ptrdiff_t>(at)];
    push(state, key);
    push_json(state, value);
  } else {
    lua_pushinteger(state, at);
    push_json(state, (*json)[static_cast<size_t>(at)]);
  }
  return 2;
}

int pairs(lua_State* state) {
  lua_pushinteger(state, 0);
  lua_pushcclosure(state, &step, 1);
  lua_pushvalue(state, 1);
  return 2;
}

int make_markup(lua_State* state) {
  Tracer& tracer = tracer_of(state);
  if (tracer.prompt != nullptr) {
    raise(state, invalid_data("prompt.markup: made where a module is loaded, never while a prompt is rendered"));
  }
  size_t total = 0;
  for (const std::string& text : tracer.markup) total += text.size();
  tracer.markup.push_back(to_text(state, 1, "prompt.markup"));
  if (total + tracer.markup.back().size() > kMaxMarkup) raise(state, invalid_data("prompt.markup: more than 1 MiB"));
  push_userdata<Markup>(state, kMarkup) = {&tracer.markup.back()};
  return 1;
}

// The client's fault, in words for the client.
int refuse(lua_State* state) {
  const std::string words = to_text(state, 1, "prompt.refuse");
  scope_of(state, "prompt.refuse").refusal = words;
  raise(state, invalid_argument(words));
}

const char* kind_of(const Json& json) {
  if (json.is_object()) return "object";
  return json.is_array() ? "array" : "number";
}

int kind(lua_State* state) {
  luaL_checkany(state, 1);
  const Json* json = handle_at(state, 1);
  push(state, json != nullptr ? kind_of(*json) : is_null(state, 1) ? "null" : luaL_typename(state, 1));
  return 1;
}

struct JsonStyle {
  bool sorted = false;
  std::string_view item = ", ";
  std::string_view key = ": ";
};

void write_json(const Json& json, const JsonStyle& style, std::string& out);

void write_object(const Json& object, const JsonStyle& style, std::string& out) {
  std::vector<Json::const_iterator> members;
  for (auto it = object.begin(); it != object.end(); ++it) members.push_back(it);
  if (style.sorted) {
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.key() < b.key(); });
  }
  out += '{';
  for (size_t i = 0; i < members.size(); ++i) {
    if (i > 0) out += style.item;
    out += dump_json(Json(members[i].key()));
    out += style.key;
    write_json(members[i].value(), style, out);
  }
  out += '}';
}

// As Python's json.dumps with ensure_ascii=False: most formats were made by it.
void write_json(const Json& json, const JsonStyle& style, std::string& out) {
  if (json.is_object()) {
    write_object(json, style, out);
  } else if (json.is_array()) {
    out += '[';
    for (size_t i = 0; i < json.size(); ++i) {
      if (i > 0) out += style.item;
      write_json(json[i], style, out);
    }
    out += ']';
  } else {
    out += json.is_number_float() ? text::jinja::format_float(json.get<double>()) : dump_json(json);
  }
}

bool option(lua_State* state, const char* name) {
  if (lua_type(state, 2) != LUA_TTABLE) return false;
  lua_getfield(state, 2, name);
  const bool set = lua_toboolean(state, -1) != 0;
  lua_pop(state, 1);
  return set;
}

// The value of a Lua scalar; tables are refused, since their order is lost.
Json scalar_at(lua_State* state, int index) {
  switch (lua_type(state, index)) {
    case LUA_TBOOLEAN:
      return lua_toboolean(state, index) != 0;
    case LUA_TSTRING:
      return to_text(state, index, "value");
    case LUA_TNUMBER:
      if (lua_isinteger(state, index) != 0) return static_cast<int64_t>(lua_tointeger(state, index));
      return lua_tonumber(state, index);
    default:
      if (is_null(state, index)) return nullptr;
      raise(state, invalid_data("prompt.json: found " + describe(state, index) + ", wanted a JSON value"));
  }
}

// prompt.json(value, { sorted = …, compact = … })
int to_json(lua_State* state) {
  PromptScope& scope = scope_of(state, "prompt.json");
  JsonStyle style{.sorted = option(state, "sorted")};
  if (option(state, "compact")) style.item = ",", style.key = ":";
  std::string out;
  const Json* json = handle_at(state, 1);
  write_json(json != nullptr ? *json : scalar_at(state, 1), style, out);
  spend(state, scope, out.size());
  push(state, out);
  return 1;
}

// The value of a JSON text; nil and a message where it is none.
int parse(lua_State* state) {
  const std::string text = to_text(state, 1, "prompt.parse");
  PromptScope& scope = scope_of(state, "prompt.parse");
  spend(state, scope, text.size() * 8);
  Result<Json> json = parse_json(text);
  if (!json.ok()) {
    lua_pushnil(state);
    push(state, json.status().message());
    return 2;
  }
  push_json(state, scope.parsed.emplace_back(*std::move(json)));
  return 1;
}

int trim(lua_State* state) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::string text = to_text(state, 1, "prompt.trim");
  charge_bytes(state, text.size());
  const size_t begin = text.find_first_not_of(kSpace);
  const size_t end = text.find_last_not_of(kSpace);
  push(state, begin == std::string::npos ? std::string_view() : std::string_view(text).substr(begin, end - begin + 1));
  return 1;
}

// A table of the lines without their ends; an end of the text after a line break is no line.
int lines(lua_State* state) {
  const std::string text = to_text(state, 1, "prompt.lines");
  charge_bytes(state, text.size());
  lua_newtable(state);
  lua_Integer count = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t cut = end > begin && text[end - 1] == '\r' && end < text.size() ? end - 1 : end;
    push(state, std::string_view(text).substr(begin, cut - begin));
    lua_rawseti(state, -2, ++count);
    begin = end + 1;
  }
  sandbox_of(state).charge(count);
  return 1;
}

// prompt.replace(text, what, with): every occurrence, no patterns.
int replace(lua_State* state) {
  const std::string text = to_text(state, 1, "prompt.replace");
  const std::string what = to_text(state, 2, "prompt.replace");
  const std::string with = to_text(state, 3, "prompt.replace");
  PromptScope& scope = scope_of(state, "prompt.replace");
  if (what.empty()) raise(state, invalid_data("prompt.replace: the text to be replaced is empty"));
  std::string out;
  size_t begin = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, begin)) {
    out.append(text, begin, at - begin);
    out += with;
    begin = at + what.size();
    if (static_cast<int64_t>(out.size()) > scope.bytes_left) break;
  }
  out.append(text, begin);
  spend(state, scope, out.size());
  push(state, out);
  return 1;
}

int contains(lua_State* state) {
  const std::string text = to_text(state, 1, "prompt.contains");
  charge_bytes(state, text.size());
  lua_pushboolean(state, text.find(to_text(state, 2, "prompt.contains")) != std::string::npos ? 1 : 0);
  return 1;
}

void append(PromptScope& scope, std::string_view text, bool trusted) {
  if (text.empty()) return;
  if (scope.segments.empty() || scope.segments.back().trusted != trusted) {
    scope.segments.push_back({std::string(text), trusted});
  } else {
    scope.segments.back().text += text;
  }
}

}  // namespace

int write_pieces(lua_State* state) {
  PromptScope& scope = scope_of(state, "write");
  for (int i = 1; i <= lua_gettop(state); ++i) {
    if (const auto* markup = userdata<Markup>(state, i, kMarkup)) {
      spend(state, scope, markup->text->size());
      append(scope, *markup->text, true);
      continue;
    }
    const bool text = lua_type(state, i) == LUA_TSTRING || lua_isinteger(state, i) != 0;
    if (!text) raise(state, invalid_data("write: found " + describe(state, i) + ", wanted text or markup"));
    size_t length_bytes = 0;
    const char* bytes = lua_tolstring(state, i, &length_bytes);
    spend(state, scope, length_bytes);
    append(scope, {bytes, length_bytes}, false);
  }
  return 0;
}

void push_json(lua_State* state, const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      lua_pushboolean(state, json.get<bool>() ? 1 : 0);
      return;
    case Json::value_t::string:
      charge_bytes(state, json.get_ref<const std::string&>().size());
      push(state, json.get_ref<const std::string&>());
      return;
    case Json::value_t::number_integer:
      lua_pushinteger(state, json.get<int64_t>());
      return;
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        lua_pushinteger(state, json.get<int64_t>());
      } else {
        push_userdata<JsonHandle>(state, kJsonNumber) = {&json};
      }
      return;
    case Json::value_t::number_float:
      lua_pushnumber(state, json.get<double>());
      return;
    case Json::value_t::object:
      push_userdata<JsonHandle>(state, kJsonObject) = {&json};
      return;
    case Json::value_t::array:
      push_userdata<JsonHandle>(state, kJsonList) = {&json};
      return;
    default:
      push_null(state);
  }
}

void open_prompts(lua_State* state) {
  const luaL_Reg object[] = {{"__index", &index_object}, {"__len", &length}, {"__pairs", &pairs}, {nullptr, nullptr}};
  new_kind(state, kJsonObject, object);
  const luaL_Reg list[] = {{"__index", &index_list}, {"__len", &length}, {"__pairs", &pairs}, {nullptr, nullptr}};
  new_kind(state, kJsonList, list);
  const luaL_Reg none[] = {{nullptr, nullptr}};
  new_kind(state, kJsonNumber, none);
  new_kind(state, kMarkup, none);
  const luaL_Reg library[] = {{"markup", &make_markup}, {"refuse", &refuse}, {"kind", &kind},   {"json", &to_json},
                              {"parse", &parse},        {"trim", &trim},     {"lines", &lines}, {"replace", &replace},
                              {"contains", &contains},  {nullptr, nullptr}};
  luaL_newlib(state, library);
  lua_setglobal(state, "prompt");
}

}  // namespace firstlight::intake
