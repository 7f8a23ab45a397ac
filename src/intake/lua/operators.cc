// SPDX-License-Identifier: Apache-2.0
// The operators as builtins: operands first, then one table of attributes by the names of the operator's table row, as
// in rms_norm(x, w, { eps = 1e-5 }). Types and defaults come from that row, so a new operator costs one line here.
#include <algorithm>

#include "intake/lua/kinds.h"
#include "intake/lua/operators.h"
#include "intake/lua/stack.h"
#include "intake/lua/traced_function.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

using ops::AttributeType;
using ops::OpKind;

const ops::AttributeDef* find_attribute(const ops::OpDef& def, std::string_view name) {
  for (const ops::AttributeDef& attribute : def.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

ops::Attribute read_attribute(lua_State* state, int index, AttributeType type, const std::string& what) {
  switch (type) {
    case AttributeType::kBool:
      if (lua_type(state, index) != LUA_TBOOLEAN) {
        raise(state, invalid_data(what + ": found " + describe(state, index) + ", wanted true or false"));
      }
      return lua_toboolean(state, index) != 0;
    case AttributeType::kInt:
      return to_integer(state, index, what);
    case AttributeType::kFloat:
      return to_number(state, index, what);
    case AttributeType::kString:
      return to_text(state, index, what);
    case AttributeType::kInts:
      return to_integers(state, index, what);
    case AttributeType::kFloats:
      return to_numbers(state, index, what);
    case AttributeType::kExpression:
    case AttributeType::kExpressions:
      break;
  }
  raise(state, invalid_data(what + " can not be set from a table"));
}

std::string shape_text(lua_State* state, int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i) {
    if (i > first) text += ",";
    text += lua_type(state, i) == LUA_TSTRING ? to_text(state, i, "reshape")
                                              : std::to_string(to_integer(state, i, "reshape"));
  }
  return text;
}

// reshape(x, "T", 8, 64): sizes as arguments; "T" and its kin are symbolic, one may be -1.
int reshape(lua_State* state) {
  const ir::ValueId x = graph_operand(state, 1, "reshape");
  ops::Attributes attributes;
  attributes.set("shape", shape_text(state, 2, lua_gettop(state)));
  push_graph_value(state, add_node_one(state, OpKind::kReshape, {{x}}, std::move(attributes)));
  return 1;
}

// transpose(x, 0, 2, 1) and cast(x, "f32"): their one attribute as arguments.
int transpose(lua_State* state) {
  const ir::ValueId x = graph_operand(state, 1, "transpose");
  std::vector<int64_t> perm;
  for (int i = 2; i <= lua_gettop(state); ++i) perm.push_back(to_integer(state, i, "transpose"));
  ops::Attributes attributes;
  attributes.set("perm", std::move(perm));
  push_graph_value(state, add_node_one(state, OpKind::kTranspose, {{x}}, std::move(attributes)));
  return 1;
}

int cast(lua_State* state) {
  const ir::ValueId x = graph_operand(state, 1, "cast");
  ops::Attributes attributes;
  attributes.set("to", to_text(state, 2, "cast"));
  push_graph_value(state, add_node_one(state, OpKind::kCast, {{x}}, std::move(attributes)));
  return 1;
}

// constant({ 0.5, 0.25 }, 2): numbers, then the sizes (none: as long as the list).
int constant(lua_State* state) {
  ops::Attributes attributes;
  std::vector<double> values = to_numbers(state, 1, "constant");
  std::vector<int64_t> sizes;
  for (int i = 2; i <= lua_gettop(state); ++i) sizes.push_back(to_integer(state, i, "constant"));
  if (sizes.empty()) sizes.push_back(static_cast<int64_t>(values.size()));
  attributes.set("values", std::move(values));
  attributes.set("shape", std::move(sizes));
  push_graph_value(state, add_node_one(state, OpKind::kConstant, {}, std::move(attributes)));
  return 1;
}

// Upvalue 1: the OpKind.
int plain_operator(lua_State* state) {
  const auto op = static_cast<OpKind>(lua_tointeger(state, lua_upvalueindex(1)));
  const ops::OpDef& def = ops::op_def(op);
  const int top = lua_gettop(state);
  ops::Attributes attributes;
  std::vector<ir::ValueId> operands;
  for (int i = 1; i <= top; ++i) {
    if (lua_type(state, i) == LUA_TTABLE && i == top) {
      attributes = read_attributes(state, i, op, {});
    } else if (lua_type(state, i) != LUA_TNIL) {
      operands.push_back(graph_operand(state, i, def.name));
    }
  }
  const auto results = add_node(state, op, operands, std::move(attributes));
  for (const ir::ValueId id : results) push_graph_value(state, id);
  return static_cast<int>(results.size());
}

}  // namespace

ir::ValueId graph_operand(lua_State* state, int index, std::string_view what) {
  const auto* value = userdata<GraphValue>(state, index, kGraphValue);
  if (value == nullptr) {
    raise(state, invalid_data(std::string(what) + ": operand " + std::to_string(index) + " is " +
                              describe(state, index) + ", wanted a graph value"));
  }
  return value->id;
}

ops::Attributes read_attributes(lua_State* state, int index, ops::OpKind op, std::span<const std::string_view> skip) {
  const ops::OpDef& def = ops::op_def(op);
  index = lua_absindex(state, index);
  ops::Attributes attributes;
  for (lua_pushnil(state); lua_next(state, index) != 0; lua_pop(state, 1)) {
    if (lua_type(state, -2) != LUA_TSTRING) {
      raise(state, invalid_data(std::string(def.name) + ": found " + describe(state, -2) +
                                " as a name of an attribute, wanted { name = value }"));
    }
    const std::string name = to_text(state, -2, "attribute");
    if (std::find(skip.begin(), skip.end(), name) != skip.end()) continue;
    const ops::AttributeDef* attribute = find_attribute(def, name);
    if (attribute == nullptr) raise(state, invalid_data(std::string(def.name) + " has no attribute '" + name + "'"));
    attributes.set(name, read_attribute(state, -1, attribute->type, std::string(def.name) + ", attribute " + name));
  }
  return attributes;
}

void open_operators(lua_State* state) {
  constexpr OpKind kPlain[] = {OpKind::kGatherRows,    OpKind::kGatherLast, OpKind::kSlice,     OpKind::kConcat,
                               OpKind::kStack,         OpKind::kReduce,     OpKind::kSoftmax,   OpKind::kTopK,
                               OpKind::kIndexMask,     OpKind::kRmsNorm,    OpKind::kLayerNorm, OpKind::kLinear,
                               OpKind::kBatchedLinear, OpKind::kRope,       OpKind::kTake,      OpKind::kPad,
                               OpKind::kScatterRows,   OpKind::kCumsum,     OpKind::kEinsum,    OpKind::kConv2d,
                               OpKind::kPool2d,        OpKind::kInterp2d};
  for (const OpKind op : kPlain) {
    lua_pushinteger(state, static_cast<lua_Integer>(op));
    lua_pushcclosure(state, &plain_operator, 1);
    lua_setglobal(state, std::string(ops::op_name(op)).c_str());
  }
  lua_register(state, "reshape", &reshape);
  lua_register(state, "transpose", &transpose);
  lua_register(state, "cast", &cast);
  lua_register(state, "constant", &constant);
}

}  // namespace firstlight::intake
