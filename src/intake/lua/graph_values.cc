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

namespace {

ir::ValueId as_float32(Tracer& tracer, ir::ValueId value) {
  ops::Attributes to;
  to.set("to", std::string("f32"));
  const ir::ValueId operands[] = {value};
  return tracer.builder.add(ops::OpKind::kCast, operands, std::move(to)).value().at(0);
}

// A formula that a weight in blocks does not fit into (its last axis moves or is cut) gets it decoded. Whether one was.
bool decode_blocks(Tracer& tracer, std::vector<ir::ValueId>& operands) {
  bool any = false;
  for (ir::ValueId& id : operands) {
    const tensor::Type type = tracer.builder.type(id);
    const bool ours = type.dtype == tensor::DType::kInt4G || type.dtype == tensor::DType::kInt8G ||
                      type.dtype == tensor::DType::kFP8G || type.dtype == tensor::DType::kNVFP4 ||
                      type.dtype == tensor::DType::kMXFP4;
    if (type.is_state() || !ours) continue;
    id = as_float32(tracer, id);
    any = true;
  }
  return any;
}

// x as the vendor's kernel rounds it in front of this weight.
ir::ValueId rounded_input(lua_State* state, Tracer& tracer, ir::ValueId x, const ActivationUse& use) {
  const ActivationScheme& scheme = *use.scheme;
  if (!scheme.unsupported.empty()) raise(state, unsupported("--vendor-activations: " + scheme.unsupported));
  if (scheme.is_static && use.scale < 0) {
    raise(state, invalid_data("--vendor-activations: activations have static scales, but a weight has none beside it"));
  }
  const std::string key =
      scheme.format + " " + std::to_string(scheme.block) + " " + scheme.scale_format + " " + std::to_string(use.scale);
  const auto known = tracer.rounded.find({x, key});
  if (known != tracer.rounded.end()) return known->second;
  ops::Attributes attributes;
  attributes.set("format", scheme.format);
  attributes.set("block", scheme.block);
  attributes.set("scale_format", scheme.scale_format);
  const bool is_f32 = tracer.builder.type(x).dtype == tensor::DType::kF32;
  std::vector<ir::ValueId> operands = {is_f32 ? x : as_float32(tracer, x)};
  if (use.scale >= 0) {
    operands.push_back(as_float32(tracer, use.scale));
    if (use.divides) {
      ops::Attributes inverse;
      inverse.set("expr", ops::Expression::parse("div(1.0, x0)").value());
      operands[1] = tracer.builder.add(ops::OpKind::kMap, {&operands[1], 1}, std::move(inverse)).value().at(0);
    }
  }
  auto result = tracer.builder.add(ops::OpKind::kFakeQuant, operands, std::move(attributes));
  if (!result.ok()) raise(state, invalid_data(result.status().message()));
  return tracer.rounded[{x, key}] = result->at(0);
}

}  // namespace

namespace {

// A sequence's state is written once per run, by one node that always runs: written twice, or under a condition, what
// comes out would depend on how a prompt is cut into pieces.
void note_state_write(lua_State* state, Tracer& tracer, ops::OpKind op, std::span<const ir::ValueId> operands,
                      ops::Attributes attributes) {
  if (op == ops::OpKind::kAttend || op == ops::OpKind::kAttendSegments || op == ops::OpKind::kIndexScores) return;
  if (!ops::check_attributes(ops::op_def(op), attributes).ok()) return;  // the builder says what is wrong
  for (const ir::ValueId id : operands) {
    if (!tracer.builder.type(id).is_state()) continue;
    const std::string component = attributes.has("component") ? "." + attributes.get_string("component") : "";
    const std::string name = "state '" + tracer.graph.state_of(id)->name + component + "'";
    const std::string what = std::string(ops::op_name(op)) + ": " + name;
    if (tracer.builder.inside_region()) raise(state, unsupported(what + " is written inside cond, loop or experts"));
    if (!tracer.written_states.insert(name).second) raise(state, invalid_data(what + " is written a second time"));
  }
}

}  // namespace

namespace {

// The tensors of the file that gave operands a type which no result has: "; NAME is stored as i32[4, 8]".
std::string odd_tensors(const Tracer& tracer, std::span<const ir::ValueId> operands) {
  constexpr int kDeepest = 16;
  std::string text;
  for (ir::ValueId id : operands) {
    const ir::Value* value = &tracer.graph.value(id);
    if (value->type.is_state() || value->type.dtype == tensor::DType::kF32) continue;
    for (int i = 0; i < kDeepest && value->producer >= 0; ++i) {  // moved, not computed: the first operand's type
      const ir::Node& node = tracer.graph.node(value->producer);
      if (node.operands.empty()) break;
      value = &tracer.graph.value(node.operands[0]);
    }
    if (value->kind != ir::Value::Kind::kWeight) continue;
    const auto source = tracer.graph.weight_sources.find(value->name);
    const std::string& name = source == tracer.graph.weight_sources.end() ? value->name : source->second.tensor;
    text += "; " + name + " is stored as " + value->type.to_string();
  }
  return text;
}

}  // namespace

std::vector<ir::ValueId> add_node(lua_State* state, ops::OpKind op, std::span<const ir::ValueId> operands,
                                  ops::Attributes attributes) {
  Tracer& tracer = tracer_of(state);
  if (tracer.graph.nodes.size() >= kMaxNodes || tracer.graph.values.size() >= kMaxValues) {
    raise(state, unsupported("the graph has more than " + std::to_string(kMaxNodes) + " nodes"));
  }
  note_lines(state);
  std::vector<ir::ValueId> inputs(operands.begin(), operands.end());
  if (op == ops::OpKind::kLinear && inputs.size() >= 2) {
    const auto use = tracer.activations.find(inputs[1]);
    if (use != tracer.activations.end()) inputs[0] = rounded_input(state, tracer, inputs[0], use->second);
  }
  note_state_write(state, tracer, op, inputs, attributes);
  auto results = tracer.builder.add(op, inputs, attributes);
  if (!results.ok() && decode_blocks(tracer, inputs)) results = tracer.builder.add(op, inputs, std::move(attributes));
  if (!results.ok()) raise(state, invalid_data(results.status().message() + odd_tensors(tracer, inputs)));
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
