// SPDX-License-Identifier: Apache-2.0
// Control flow that the graph keeps: experts{…} (a per_expert region), cond(flag, yes, no, captured…) and
// loop(count, body, carried…). A body is an ordinary function on graph values, run once to fill its region.
#include "intake/lua/kinds.h"
#include "intake/lua/operators.h"
#include "intake/lua/stack.h"
#include "intake/lua/traced_function.h"
#include "intake/lua/tracer.h"
#include "ops/control/regions.h"

namespace firstlight::intake {
namespace {

using ops::OpKind;

// Closes the region whatever happens in its body, so that a raised error leaves the builder whole.
class OpenRegion {
 public:
  OpenRegion(ir::Builder& builder, std::span<const tensor::Type> types)
      : builder_(builder), parameters(builder.begin_region(types)) {}
  ~OpenRegion() {
    if (open_) builder_.end_region({});
  }
  OpenRegion(const OpenRegion&) = delete;
  OpenRegion& operator=(const OpenRegion&) = delete;
  ir::Region close(std::vector<ir::ValueId> yields) {
    open_ = false;
    return builder_.end_region(std::move(yields));
  }

 private:
  ir::Builder& builder_;
  bool open_ = true;

 public:
  const std::vector<ir::ValueId> parameters;
};

std::vector<tensor::Type> types_of(lua_State* state, std::span<const ir::ValueId> values) {
  std::vector<tensor::Type> types;
  for (const ir::ValueId id : values) types.push_back(tracer_of(state).builder.type(id));
  return types;
}

std::vector<tensor::Type> parameter_types(lua_State* state, OpKind op, int region,
                                          std::span<const ir::ValueId> operands, const ops::Attributes& attributes) {
  auto types = ops::region_parameters(op, region, types_of(state, operands), attributes);
  if (!types.ok()) raise(state, invalid_data(types.status().message()));
  return std::move(types).value();
}

// Runs the function at `index` on the parameters of a new region; what it returns is yielded.
// Parameters stand for the operands from `stands_for` on, as far as it goes.
ir::Region run_body(lua_State* state, int index, std::span<const tensor::Type> types,
                    std::span<const ir::ValueId> stands_for = {}) {
  Tracer& tracer = tracer_of(state);
  OpenRegion region(tracer.builder, types);
  for (size_t i = 1; i < region.parameters.size() && i - 1 < stands_for.size(); ++i) {
    const auto use = tracer.activations.find(stands_for[i - 1]);
    if (use != tracer.activations.end()) tracer.activations[region.parameters[i]] = use->second;
  }
  const int base = lua_gettop(state);
  lua_pushvalue(state, index);
  for (const ir::ValueId id : region.parameters) push_graph_value(state, id);
  lua_call(state, static_cast<int>(region.parameters.size()), LUA_MULTRET);
  std::vector<ir::ValueId> yields;
  for (int i = base + 1; i <= lua_gettop(state); ++i) yields.push_back(graph_operand(state, i, "the body's result"));
  lua_settop(state, base);
  return region.close(std::move(yields));
}

int push_results(lua_State* state, OpKind op, std::span<const ir::ValueId> operands, ops::Attributes attributes,
                 std::vector<ir::Region> regions) {
  note_lines(state);
  auto results = tracer_of(state).builder.add_with_regions(op, operands, std::move(attributes), std::move(regions));
  if (!results.ok()) raise(state, invalid_data(results.status().message()));
  for (const ir::ValueId id : *results) push_graph_value(state, id);
  return static_cast<int>(results->size());
}

std::vector<ir::ValueId> operands_from(lua_State* state, int first, std::string_view what) {
  std::vector<ir::ValueId> operands;
  for (int i = first; i <= lua_gettop(state); ++i) operands.push_back(graph_operand(state, i, what));
  return operands;
}

int cond(lua_State* state) {
  luaL_checktype(state, 2, LUA_TFUNCTION);
  luaL_checktype(state, 3, LUA_TFUNCTION);
  std::vector<ir::ValueId> operands = operands_from(state, 4, "cond");
  operands.insert(operands.begin(), graph_operand(state, 1, "cond"));
  std::vector<ir::Region> regions;
  for (int i = 0; i < 2; ++i) {
    regions.push_back(run_body(state, 2 + i, parameter_types(state, OpKind::kIf, i, operands, {})));
  }
  return push_results(state, OpKind::kIf, operands, {}, std::move(regions));
}

int loop(lua_State* state) {
  ops::Attributes attributes;
  attributes.set("count", to_integer(state, 1, "loop, count"));
  luaL_checktype(state, 2, LUA_TFUNCTION);
  const std::vector<ir::ValueId> operands = operands_from(state, 3, "loop");
  std::vector<ir::Region> regions;
  regions.push_back(run_body(state, 2, parameter_types(state, OpKind::kRepeat, 0, operands, attributes)));
  return push_results(state, OpKind::kRepeat, operands, std::move(attributes), std::move(regions));
}

// experts{ x = x, idx = idx, weight = w, num_experts = n, weight_on = …, stacked = { up, down, … },
//          body = function(rows, up, down) … end }
int experts(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  constexpr std::string_view kOwn[] = {"x", "idx", "weight", "stacked", "body"};
  ops::Attributes attributes = read_attributes(state, 1, OpKind::kPerExpert, kOwn);
  if (!attributes.has("weight_on")) attributes.set("weight_on", std::string("output"));
  if (!attributes.has("num_experts")) raise(state, invalid_data("experts: attribute num_experts is missing"));
  std::vector<ir::ValueId> operands;
  for (const char* name : {"x", "idx", "weight"}) {
    lua_getfield(state, 1, name);
    operands.push_back(graph_operand(state, -1, std::string("experts, ") + name));
    lua_pop(state, 1);
  }
  if (lua_getfield(state, 1, "stacked") != LUA_TTABLE) raise(state, invalid_data("experts: stacked is missing"));
  for (lua_Integer i = 1; i <= static_cast<lua_Integer>(lua_rawlen(state, -1)); ++i) {
    lua_rawgeti(state, -1, i);
    operands.push_back(graph_operand(state, -1, "experts, stacked"));
    lua_pop(state, 1);
  }
  lua_pop(state, 1);
  if (lua_getfield(state, 1, "body") != LUA_TFUNCTION) raise(state, invalid_data("experts: body is missing"));
  const int body = lua_gettop(state);
  std::vector<ir::Region> regions;
  regions.push_back(run_body(state, body, parameter_types(state, OpKind::kPerExpert, 0, operands, attributes),
                             std::span(operands).subspan(3)));
  return push_results(state, OpKind::kPerExpert, operands, std::move(attributes), std::move(regions));
}

}  // namespace

void open_control(lua_State* state) {
  lua_register(state, "cond", &cond);
  lua_register(state, "loop", &loop);
  lua_register(state, "experts", &experts);
}

}  // namespace firstlight::intake
