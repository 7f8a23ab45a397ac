// SPDX-License-Identifier: Apache-2.0
// The operators that read logs, with their operands named in one table: attend{…}, attend_segments{…},
// index_scores{…}, window_emit{…}. Score and mask are traced functions.
#include <algorithm>

#include "intake/lua/kinds.h"
#include "intake/lua/operators.h"
#include "intake/lua/stack.h"
#include "intake/lua/states.h"
#include "intake/lua/traced_function.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

using ops::OpKind;

// A function in a field of the table, traced over its first `count` inputs; empty when the field is absent.
ops::Expression traced_field(lua_State* state, int table, const char* field, size_t count, std::string_view what) {
  constexpr TraceArgument kArguments[] = {{.input = 0}, {.input = 1}, {.input = 2}, {.input = 3}};
  ops::Expression formula;
  if (lua_getfield(state, table, field) != LUA_TNIL) {
    formula = trace_function(state, -1, std::span(kArguments).first(count), std::string(what) + ", " + field);
  }
  lua_pop(state, 1);
  return formula;
}

bool has_field(lua_State* state, int table, const char* field) {
  const bool has = lua_getfield(state, table, field) != LUA_TNIL;
  lua_pop(state, 1);
  return has;
}

ir::ValueId graph_field(lua_State* state, int table, const char* field, std::string_view what) {
  lua_getfield(state, table, field);
  const auto* value = userdata<GraphValue>(state, -1, kGraphValue);
  if (value == nullptr) {
    raise(state,
          invalid_data(std::string(what) + ", " + field + ": found " + describe(state, -1) + ", wanted a graph value"));
  }
  lua_pop(state, 1);
  return value->id;
}

ir::ValueId state_field(lua_State* state, int table, std::string_view what) {
  lua_getfield(state, table, "state");
  const ir::ValueId id = state_operand(state, -1, (std::string(what) + ", state").c_str()).id;
  lua_pop(state, 1);
  return id;
}

int64_t integer_field(lua_State* state, int table, const char* field, int64_t absent, std::string_view what) {
  const int type = lua_getfield(state, table, field);
  const int64_t value = type == LUA_TNIL ? absent : to_integer(state, -1, std::string(what) + ", " + field);
  lua_pop(state, 1);
  return value;
}

bool bool_field(lua_State* state, int table, const char* field, bool absent, std::string_view what) {
  const int type = lua_getfield(state, table, field);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) {
    raise(state,
          invalid_data(std::string(what) + ", " + field + ": found " + describe(state, -1) + ", wanted true or false"));
  }
  const bool value = type == LUA_TNIL ? absent : lua_toboolean(state, -1) != 0;
  lua_pop(state, 1);
  return value;
}

std::string text_field(lua_State* state, int table, const char* field, const char* absent, std::string_view what) {
  const int type = lua_getfield(state, table, field);
  std::string value = type == LUA_TNIL ? absent : to_text(state, -1, std::string(what) + ", " + field);
  lua_pop(state, 1);
  return value;
}

// attend{ q = q, state = s, scale = …, key = "k", value = "v", window = …, chunk = …, sinks = …,
//         score = function(s, qpos, kpos, head) … end, mask = function(qpos, kpos) … end }
int attend(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  constexpr std::string_view kOperands[] = {"q", "state", "sinks", "score", "mask"};
  ops::Attributes attributes = read_attributes(state, 1, OpKind::kAttend, kOperands);
  if (!attributes.has("key")) attributes.set("key", std::string("k"));
  if (!attributes.has("value")) attributes.set("value", std::string("v"));
  attributes.set("score", traced_field(state, 1, "score", 4, "attend"));
  attributes.set("mask", traced_field(state, 1, "mask", 2, "attend"));
  std::vector<ir::ValueId> operands = {graph_field(state, 1, "q", "attend"), state_field(state, 1, "attend")};
  if (has_field(state, 1, "sinks")) operands.push_back(graph_field(state, 1, "sinks", "attend"));
  push_graph_value(state, add_node_one(state, OpKind::kAttend, operands, std::move(attributes)));
  return 1;
}

// What the segments of one attend_segments call say, list by list.
struct SegmentLists {
  std::string keys, values;
  std::vector<int64_t> causal, windows, chunks, select;
  std::vector<ops::Expression> masks;
};

void check_segment_fields(lua_State* state, int table, std::string_view what) {
  constexpr std::string_view kKnown[] = {"state", "key",    "value", "causal", "window",
                                         "chunk", "select", "block", "mask"};
  for (lua_pushnil(state); lua_next(state, table) != 0; lua_pop(state, 1)) {
    const std::string name = to_text(state, -2, what);
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown)) {
      raise(state, invalid_data(std::string(what) + " has no field '" + name + "'"));
    }
  }
}

void read_segment(lua_State* state, int table, const std::string& what, SegmentLists& lists,
                  std::vector<ir::ValueId>& operands) {
  check_segment_fields(state, table, what);
  lists.keys += (lists.keys.empty() ? "" : ", ") + text_field(state, table, "key", "k", what);
  lists.values += (lists.values.empty() ? "" : ", ") + text_field(state, table, "value", "v", what);
  lists.causal.push_back(bool_field(state, table, "causal", true, what) ? 1 : 0);
  lists.windows.push_back(integer_field(state, table, "window", 0, what));
  lists.chunks.push_back(integer_field(state, table, "chunk", 0, what));
  lists.masks.push_back(traced_field(state, table, "mask", 2, what));
  operands.push_back(state_field(state, table, what));
  const bool selects = has_field(state, table, "select");
  const int64_t block = integer_field(state, table, "block", 1, what);
  if (block < 1) raise(state, invalid_data(what + ", block: found " + std::to_string(block) + ", wanted 1 or more"));
  lists.select.push_back(selects ? block : 0);
  if (selects) operands.push_back(graph_field(state, table, "select", what));
}

template <typename Value>
void set_unless_all(ops::Attributes& attributes, const char* name, std::vector<Value> list, const Value& absent) {
  if (std::all_of(list.begin(), list.end(), [&](const Value& value) { return value == absent; })) return;
  attributes.set(name, std::move(list));
}

// attend_segments{ q = q, scale = …, value_width = …, sinks = …, score = …,
//   segments = { { state = s, key = "k", value = "v", causal = true, window = …, chunk = …, mask = …,
//                  select = rows, block = 1 }, … } }
int attend_segments(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  constexpr std::string_view kOperands[] = {"q", "segments", "sinks", "score"};
  ops::Attributes attributes = read_attributes(state, 1, OpKind::kAttendSegments, kOperands);
  attributes.set("score", traced_field(state, 1, "score", 4, "attend_segments"));
  std::vector<ir::ValueId> operands = {graph_field(state, 1, "q", "attend_segments")};
  lua_settop(state, 1);
  if (lua_getfield(state, 1, "segments") != LUA_TTABLE) {
    raise(state, invalid_data("attend_segments, segments: found " + describe(state, 2) + ", wanted a list of tables"));
  }
  SegmentLists lists;
  const auto count = static_cast<lua_Integer>(lua_rawlen(state, 2));
  for (lua_Integer i = 1; i <= count; ++i) {
    const std::string what = "attend_segments, segment " + std::to_string(i);
    if (lua_rawgeti(state, 2, i) != LUA_TTABLE) {
      raise(state, invalid_data(what + ": found " + describe(state, -1) + ", wanted a table"));
    }
    read_segment(state, 3, what, lists, operands);
    lua_settop(state, 2);
  }
  if (count == 0) raise(state, invalid_data("attend_segments: no segments"));
  attributes.set("keys", std::move(lists.keys));
  attributes.set("values", std::move(lists.values));
  set_unless_all(attributes, "causal", std::move(lists.causal), int64_t{1});
  set_unless_all(attributes, "windows", std::move(lists.windows), int64_t{0});
  set_unless_all(attributes, "chunks", std::move(lists.chunks), int64_t{0});
  set_unless_all(attributes, "select", std::move(lists.select), int64_t{0});
  set_unless_all(attributes, "masks", std::move(lists.masks), ops::Expression{});
  attributes.set("sinks", has_field(state, 1, "sinks"));
  if (has_field(state, 1, "sinks")) operands.push_back(graph_field(state, 1, "sinks", "attend_segments"));
  push_graph_value(state, add_node_one(state, OpKind::kAttendSegments, operands, std::move(attributes)));
  return 1;
}

// index_scores{ q = q, state = s, key = "k", weights = w, top = k, relu = …, per_head = …, block = …, recent = …,
//               first = …, within = rows, within_block = … }
int index_scores(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  constexpr std::string_view kOperands[] = {"q", "state", "weights", "within"};
  ops::Attributes attributes = read_attributes(state, 1, OpKind::kIndexScores, kOperands);
  const bool within = has_field(state, 1, "within");
  if (within && !attributes.has("within_block")) attributes.set("within_block", int64_t{1});
  if (!within && attributes.has("within_block"))
    raise(state, invalid_data("index_scores: within_block without within"));
  if (!attributes.has("key")) attributes.set("key", std::string("k"));
  std::vector<ir::ValueId> operands = {graph_field(state, 1, "q", "index_scores"),
                                       state_field(state, 1, "index_scores")};
  if (has_field(state, 1, "weights")) operands.push_back(graph_field(state, 1, "weights", "index_scores"));
  if (within) operands.push_back(graph_field(state, 1, "within", "index_scores"));
  push_graph_value(state, add_node_one(state, OpKind::kIndexScores, operands, std::move(attributes)));
  return 1;
}

// window_emit{ x = x, state = s, component = "kv", rate = r, overlap = …, fill = … }: groups and their positions.
int window_emit(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  constexpr std::string_view kOperands[] = {"x", "state"};
  ops::Attributes attributes = read_attributes(state, 1, OpKind::kWindowEmit, kOperands);
  const ir::ValueId x = graph_field(state, 1, "x", "window_emit");
  lua_settop(state, 1);
  lua_getfield(state, 1, "state");
  StateValue& handle = state_operand(state, 2, "window_emit, state");
  const ir::ValueId operands[] = {x, handle.id};
  const auto results = add_node(state, OpKind::kWindowEmit, operands, std::move(attributes));
  handle.id = results[2];  // whoever holds it sees the newest
  push_graph_value(state, results[0]);
  push_graph_value(state, results[1]);
  return 2;
}

}  // namespace

void open_attend(lua_State* state) {
  lua_register(state, "attend", &attend);
  lua_register(state, "attend_segments", &attend_segments);
  lua_register(state, "index_scores", &index_scores);
  lua_register(state, "window_emit", &window_emit);
}

}  // namespace firstlight::intake
