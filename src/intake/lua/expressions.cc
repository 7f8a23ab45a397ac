// SPDX-License-Identifier: Apache-2.0
// Element-wise mathematics: exp, sigmoid, where, … and the arithmetic operators, each in three meanings. On traced
// values a term of the formula, on graph values a map node, on numbers a number. map() traces a function once and makes
// one node.
#include <array>

#include "intake/lua/kinds.h"
#include "intake/lua/operators.h"
#include "intake/lua/sandbox.h"
#include "intake/lua/stack.h"
#include "intake/lua/traced_function.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

using ops::ExprOp;

constexpr int kMaxTerms = 4000;

// A graph value becomes input x<n> of a formula; the same value twice is one input.
struct MapInputs {
  std::vector<ir::ValueId> values;
  int32_t index_of(ir::ValueId id) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == id) return static_cast<int32_t>(i);
    }
    values.push_back(id);
    return static_cast<int32_t>(values.size()) - 1;
  }
};

[[noreturn]] void bad_operand(lua_State* state, int index) {
  raise(state,
        invalid_data("arithmetic on " + describe(state, index) + ", wanted numbers, graph values or traced values"));
}

int apply_traced(lua_State* state, ExprOp op, int arity) {
  Tracer& tracer = tracer_of(state);
  if (tracer.traced == nullptr) raise(state, invalid_data("a traced value was used outside of its function"));
  if (tracer.traced->terms().size() >= kMaxTerms)
    raise(state, invalid_data("a traced function has too many operations"));
  sandbox_of(state).charge(8);
  std::array<int32_t, 3> terms = {-1, -1, -1};
  for (int i = 0; i < arity; ++i) terms[static_cast<size_t>(i)] = traced_term(state, i + 1);
  const int32_t term = tracer.traced->apply(op, terms[0], terms[1], terms[2]);
  push_userdata<TracedValue>(state, kTracedValue) = {term, tracer.trace_serial};
  return 1;
}

int apply_graph(lua_State* state, ExprOp op, int arity) {
  ops::Expression expression;
  MapInputs inputs;
  std::array<int32_t, 3> terms = {-1, -1, -1};
  for (int i = 0; i < arity; ++i) {
    if (const auto* value = userdata<GraphValue>(state, i + 1, kGraphValue)) {
      terms[static_cast<size_t>(i)] = expression.input(inputs.index_of(value->id));
    } else if (lua_type(state, i + 1) == LUA_TNUMBER) {
      terms[static_cast<size_t>(i)] = expression.constant(lua_tonumber(state, i + 1));
    } else {
      bad_operand(state, i + 1);
    }
  }
  expression.set_result(expression.apply(op, terms[0], terms[1], terms[2]));
  ops::Attributes attributes;
  attributes.set("expr", std::move(expression));
  push_graph_value(state, add_node_one(state, ops::OpKind::kMap, inputs.values, std::move(attributes)));
  return 1;
}

int apply_numbers(lua_State* state, ExprOp op, int arity) {
  if (op == ExprOp::kXor || op == ExprOp::kMod) {
    raise(state, invalid_data(std::string(ops::expr_op_name(op)) + ": on numbers, use ~ and %"));
  }
  std::array<double, 3> values = {};
  ops::Expression expression;
  std::array<int32_t, 3> terms = {-1, -1, -1};
  for (int i = 0; i < arity; ++i) {
    if (lua_type(state, i + 1) != LUA_TNUMBER) bad_operand(state, i + 1);
    values[static_cast<size_t>(i)] = lua_tonumber(state, i + 1);
    terms[static_cast<size_t>(i)] = expression.input(i);
  }
  expression.set_result(expression.apply(op, terms[0], terms[1], terms[2]));
  lua_pushnumber(state, expression.evaluate(values));
  return 1;
}

// Upvalue 1: the ExprOp. Upvalue 2: whether the first two operands change places (gt, ge).
int apply(lua_State* state) {
  const auto op = static_cast<ExprOp>(lua_tointeger(state, lua_upvalueindex(1)));
  const int arity = ops::expr_op_arity(op);
  if (lua_gettop(state) < arity) {
    raise(state, invalid_data(std::string(ops::expr_op_name(op)) + ": wanted " + std::to_string(arity) + " operands"));
  }
  lua_settop(state, arity);  // the unary metamethod gets its operand twice
  if (lua_toboolean(state, lua_upvalueindex(2)) != 0) {
    lua_pushvalue(state, 1);
    lua_remove(state, 1);
  }
  bool graph = false;
  for (int i = 1; i <= arity; ++i) {
    if (luaL_testudata(state, i, kTracedValue) != nullptr) return apply_traced(state, op, arity);
    graph = graph || luaL_testudata(state, i, kGraphValue) != nullptr;
  }
  return graph ? apply_graph(state, op, arity) : apply_numbers(state, op, arity);
}

// map(function(x, y) … end, a, b), imap(…, { to = "i32" }): numbers among the arguments are handed over as they are.
// Upvalue 1: the OpKind (map, imap).
int map_function(lua_State* state) {
  const auto op = static_cast<ops::OpKind>(lua_tointeger(state, lua_upvalueindex(1)));
  luaL_checktype(state, 1, LUA_TFUNCTION);
  ops::Attributes attributes;
  if (op == ops::OpKind::kImap && lua_type(state, -1) == LUA_TTABLE) {
    attributes = read_attributes(state, lua_gettop(state), op, {});
    lua_pop(state, 1);
  }
  const int count = lua_gettop(state) - 1;
  std::vector<ir::ValueId> values;
  std::vector<TraceArgument> arguments;
  for (int i = 0; i < count; ++i) {
    if (const auto* value = userdata<GraphValue>(state, i + 2, kGraphValue)) {
      arguments.push_back({.input = static_cast<int32_t>(values.size())});
      values.push_back(value->id);
    } else if (lua_type(state, i + 2) == LUA_TNUMBER) {
      arguments.push_back({.input = -1, .number = lua_tonumber(state, i + 2)});
    } else {
      raise(state, invalid_data("map: argument " + std::to_string(i + 2) + " is " + describe(state, i + 2) +
                                ", wanted a graph value or a number"));
    }
  }
  if (values.empty()) raise(state, invalid_data("map: no graph value among its arguments"));
  attributes.set("expr", trace_function(state, 1, arguments, ops::op_name(op)));
  push_graph_value(state, add_node_one(state, op, values, std::move(attributes)));
  return 1;
}

int no_order(lua_State* state) { raise(state, invalid_data("a traced value has no truth: use lt, le, eq and where")); }

void push_apply(lua_State* state, ExprOp op, bool swapped) {
  lua_pushinteger(state, static_cast<lua_Integer>(op));
  lua_pushboolean(state, swapped ? 1 : 0);
  lua_pushcclosure(state, &apply, 2);
}

struct Named {
  const char* name;
  ExprOp op;
  bool swapped = false;
};

constexpr Named kFunctions[] = {
    {"min", ExprOp::kMin},     {"max", ExprOp::kMax},         {"pow", ExprOp::kPow},     {"abs", ExprOp::kAbs},
    {"sign", ExprOp::kSign},   {"floor", ExprOp::kFloor},     {"exp", ExprOp::kExp},     {"expm1", ExprOp::kExpm1},
    {"log", ExprOp::kLog},     {"log1p", ExprOp::kLog1p},     {"sqrt", ExprOp::kSqrt},   {"rsqrt", ExprOp::kRsqrt},
    {"tanh", ExprOp::kTanh},   {"sigmoid", ExprOp::kSigmoid}, {"erf", ExprOp::kErf},     {"sin", ExprOp::kSin},
    {"cos", ExprOp::kCos},     {"lt", ExprOp::kLt},           {"le", ExprOp::kLe},       {"gt", ExprOp::kLt, true},
    {"ge", ExprOp::kLe, true}, {"eq", ExprOp::kEq},           {"where", ExprOp::kWhere}, {"xor", ExprOp::kXor},
    {"mod", ExprOp::kMod},
};

constexpr Named kMetamethods[] = {{"__add", ExprOp::kAdd}, {"__sub", ExprOp::kSub}, {"__mul", ExprOp::kMul},
                                  {"__div", ExprOp::kDiv}, {"__pow", ExprOp::kPow}, {"__unm", ExprOp::kNeg}};

}  // namespace

void open_expressions(lua_State* state) {
  const luaL_Reg traced[] = {{"__lt", &no_order}, {"__le", &no_order}, {"__eq", &no_order}, {nullptr, nullptr}};
  new_kind(state, kTracedValue, traced);
  for (const char* kind : {kGraphValue, kTracedValue}) {
    luaL_getmetatable(state, kind);
    for (const Named& named : kMetamethods) {
      push_apply(state, named.op, named.swapped);
      lua_setfield(state, -2, named.name);
    }
    lua_pop(state, 1);
  }
  for (const Named& named : kFunctions) {
    push_apply(state, named.op, named.swapped);
    lua_setglobal(state, named.name);
  }
  for (const ops::OpKind op : {ops::OpKind::kMap, ops::OpKind::kImap}) {
    lua_pushinteger(state, static_cast<lua_Integer>(op));
    lua_pushcclosure(state, &map_function, 1);
    lua_setglobal(state, std::string(ops::op_name(op)).c_str());
  }
}

}  // namespace firstlight::intake
