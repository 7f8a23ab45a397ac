// SPDX-License-Identifier: Apache-2.0
// Values of the graph as Lua sees them: handles whose arithmetic makes map nodes. Their order can not be known while a
// spec runs, so `<`, `<=` and `==` raise.
#include "intake/lua/kinds.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"
#include "tensor/codec.h"

namespace firstlight::intake {
namespace {

constexpr size_t kMaxNodes = 100'000;
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

int value_dtype(lua_State* state) {
  const auto* value = static_cast<GraphValue*>(luaL_checkudata(state, 1, kGraphValue));
  push(state, tensor::dtype_name(tracer_of(state).builder.type(value->id).dtype));
  return 1;
}

// rounded(number, "bf16"): the number as that type stores it, for constants that a model keeps in its weights' type.
int rounded(lua_State* state) {
  const auto value = static_cast<float>(to_number(state, 1, "rounded"));
  const std::string type = to_text(state, 2, "rounded");
  if (type == "bf16") {
    lua_pushnumber(state, static_cast<double>(tensor::bf16_to_f32(tensor::f32_to_bf16(value))));
  } else if (type == "f16") {
    lua_pushnumber(state, static_cast<double>(tensor::f16_to_f32(tensor::f32_to_f16(value))));
  } else if (type == "f32") {
    lua_pushnumber(state, static_cast<double>(value));
  } else {
    raise(state, invalid_data("rounded: found type '" + type + "', wanted bf16, f16 or f32"));
  }
  return 1;
}

int value_index(lua_State* state) {
  const std::string key = to_text(state, 2, "field");
  const lua_CFunction method = key == "dim"     ? &value_dim
                               : key == "rank"  ? &value_rank
                               : key == "dtype" ? &value_dtype
                                                : nullptr;
  if (method == nullptr) raise(state, invalid_data("a graph value has no field '" + key + "'"));
  lua_pushcfunction(state, method);
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
  lua_register(state, "rounded", &rounded);
}

}  // namespace firstlight::intake
