// SPDX-License-Identifier: Apache-2.0
// Values of the graph as Lua sees them: handles whose arithmetic makes map nodes. Their order can not be known while a
// spec runs, so `<`, `<=` and `==` raise.
#include "intake/lua/kinds.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

constexpr size_t kMaxNodes = 400'000;
constexpr size_t kMaxValues = 1'200'000;

int no_order(lua_State* state) {
  raise(state, invalid_data("a graph value has no truth while the spec runs: use lt, le, eq and where"));
}

// x:dim(axis), from 0, negative from the end: a number, or text for a symbolic one ("T").
int value_dim(lua_State* state) {
  const auto* value = static_cast<GraphValue*>(luaL_checkudata(state, 1, kGraphValue));
  const tensor::Shape& shape = tracer_of(state).builder.type(value->id).shape;
  int64_t axis = to_integer(state, 2, "axis");
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank)
    raise(state, invalid_data("axis " + std::to_string(axis) + " of " + tensor::shape_to_string(shape)));
  const tensor::Dim& dim = shape[static_cast<size_t>(axis)];
  if (dim.is_static()) {
    lua_pushinteger(state, dim.factor);
  } else {
    push(state, dim.to_string());
  }
  return 1;
}

int value_rank(lua_State* state) {
  const auto* value = static_cast<GraphValue*>(luaL_checkudata(state, 1, kGraphValue));
  lua_pushinteger(state, static_cast<lua_Integer>(tracer_of(state).builder.type(value->id).shape.size()));
  return 1;
}

int value_index(lua_State* state) {
  const std::string key = to_text(state, 2, "field");
  if (key != "dim" && key != "rank") raise(state, invalid_data("a graph value has no field '" + key + "'"));
  lua_pushcfunction(state, key == "dim" ? &value_dim : &value_rank);
  return 1;
}

}  // namespace

void push_graph_value(lua_State* state, ir::ValueId id) { push_userdata<GraphValue>(state, kGraphValue).id = id; }

void push_state_value(lua_State* state, ir::ValueId id) { push_userdata<StateValue>(state, kStateValue).id = id; }

std::vector<ir::ValueId> add_node(lua_State* state, ops::OpKind op, std::span<const ir::ValueId> operands,
                                  ops::Attributes attributes) {
  Tracer& tracer = tracer_of(state);
  if (tracer.graph.nodes.size() >= kMaxNodes || tracer.graph.values.size() >= kMaxValues) {
    raise(state, unsupported("the graph has more than " + std::to_string(kMaxNodes) + " nodes"));
  }
  auto results = tracer.builder.add(op, operands, std::move(attributes));
  if (!results.ok()) raise(state, invalid_data(results.status().message()));
  return std::move(results).value();
}

ir::ValueId add_node_one(lua_State* state, ops::OpKind op, std::span<const ir::ValueId> operands,
                         ops::Attributes attributes) {
  return add_node(state, op, operands, std::move(attributes)).at(0);
}

void open_graph_values(lua_State* state) {
  const luaL_Reg value[] = {
      {"__lt", &no_order}, {"__le", &no_order}, {"__eq", &no_order}, {"__index", &value_index}, {nullptr, nullptr}};
  new_kind(state, kGraphValue, value);
}

}  // namespace firstlight::intake
