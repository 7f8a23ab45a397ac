// SPDX-License-Identifier: Apache-2.0
// The userdata that specs hold: handles without storage of their own. What they point to lives in the Tracer.
#pragma once

#include <cstdint>
#include <lua.hpp>
#include <string>

#include "intake/trace_record.h"
#include "ir/graph.h"

namespace firstlight::intake {

struct ConfigNode;

// Names of the metatables; also what error messages call the thing.
inline constexpr const char* kGraphValue = "a graph value";
inline constexpr const char* kStateValue = "a state";
inline constexpr const char* kTracedValue = "a traced value";
inline constexpr const char* kConfigObject = "a config object";
inline constexpr const char* kConfigList = "a config list";
inline constexpr const char* kWeightScope = "a weight scope";

struct GraphValue {
  ir::ValueId id = -1;
};

struct StateValue {
  ir::ValueId id = -1;
};

// A term of the expression being traced; `trace` tells it from terms of earlier traces.
struct TracedValue {
  int32_t term = -1;
  int32_t trace = 0;
};

struct ConfigProxy {
  const ConfigNode* node = nullptr;
  const std::string* path = nullptr;
  ConfigRecord* record = nullptr;
  bool leaf = false;  // node->is_leaf(), which looks at every item of a list
};
void touch(const ConfigProxy& leaf);

struct WeightScope {
  const std::string* prefix = nullptr;  // "" or ending in a dot
};

void push_config(lua_State* state, const ConfigNode& node, const std::string& path, ConfigRecord& record);
void push_graph_value(lua_State* state, ir::ValueId id);
void push_state_value(lua_State* state, ir::ValueId id);
void push_weight_scope(lua_State* state, const std::string& prefix);

// Metatables and globals of each file's part of the language.
void open_config(lua_State* state);
void open_weights(lua_State* state);
void open_graph_values(lua_State* state);
void open_expressions(lua_State* state);
void open_operators(lua_State* state);
void open_attention(lua_State* state);
void open_attend(lua_State* state);
void open_states(lua_State* state);
void open_recurrences(lua_State* state);
void open_control(lua_State* state);
void open_prompts(lua_State* state);
void open_gguf_access(lua_State* state);  // only for std/gguf.lua

}  // namespace firstlight::intake
