// SPDX-License-Identifier: Apache-2.0
// What std/gguf.lua may ask of the file beyond its metadata: the shape of a tensor, and the values of the few short
// ones that are parameters of the graph (rotary divisors).
#include "intake/lua/kinds.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

// gguf_shape(name): its sizes as a list, outermost first; nil: no such tensor.
int gguf_shape(lua_State* state) {
  const TensorInfo* info = tracer_of(state).tensors.find(to_text(state, 1, "gguf_shape"));
  if (info == nullptr) return 0;
  lua_createtable(state, static_cast<int>(info->shape.size()), 0);
  for (size_t i = 0; i < info->shape.size(); ++i) {
    lua_pushinteger(state, info->shape[i]);
    lua_rawseti(state, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

// gguf_floats(name): its values as a list. The tensor counts as waived: it lives on in the graph's attributes.
int gguf_floats(lua_State* state) {
  Tracer& tracer = tracer_of(state);
  const std::string name = to_text(state, 1, "gguf_floats");
  if (!tracer.read_floats)
    raise(state, unsupported("the values of " + name + " are needed, and only headers are here"));
  const std::vector<double> values = take(state, tracer.read_floats(name));
  lua_createtable(state, static_cast<int>(values.size()), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    lua_pushnumber(state, values[i]);
    lua_rawseti(state, -2, static_cast<lua_Integer>(i) + 1);
  }
  tracer.waived_tensors[name] = "its values are attributes of the graph";
  return 1;
}

}  // namespace

void open_gguf_access(lua_State* state) {
  lua_register(state, "gguf_shape", &gguf_shape);
  lua_register(state, "gguf_floats", &gguf_floats);
}

}  // namespace firstlight::intake
