// SPDX-License-Identifier: Apache-2.0
// What one trace collects: the graph under construction and the record of config keys and tensors. Reached from every
// builtin through the Lua state's extra space.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "intake/config_tree.h"
#include "intake/lua/kinds.h"
#include "intake/quantisation.h"
#include "intake/tensor_table.h"
#include "ir/builder.h"
#include "ops/expression.h"

namespace firstlight::intake {

struct PromptScope;
struct Visits;

// Activations in front of a product with a weight are rounded like this.
struct ActivationUse {
  const ActivationScheme* scheme = nullptr;
  ir::ValueId scale = -1;  // of static ones; -1: none
  bool divides = false;    // the scale is the inverse of what it means elsewhere
};

struct Tracer {
  Tracer(const TensorTable& tensor_table, const Quantisation& quant) : tensors(tensor_table), quantisation(quant) {}

  const TensorTable& tensors;
  const Quantisation& quantisation;
  std::function<Result<std::vector<double>>(const std::string& name)> read_floats;  // as in TraceInput
  bool gguf = false;  // tensors have GGUF's names; the registry's kGgufMapper maps onto them

  bool probing = false;  // only the graph's fingerprint is wanted: one weight stands for a stack of experts

  ir::Graph graph;
  ir::Builder builder{graph};

  ConfigRecord config;          // of the file's own config
  ConfigRecord derived_config;  // of what gguf.lua made of a GGUF's metadata; not part of the report
  std::map<std::string, ir::ValueId, std::less<>> weights;  // by the name the spec used
  std::map<ir::ValueId, ActivationUse> activations;         // by weight; empty unless vendors' rounding was asked for
  std::map<std::pair<ir::ValueId, std::string>, ir::ValueId> rounded;  // by what is rounded and how
  std::map<std::string, std::string> waived_tensors;
  std::map<std::string, std::string> waived_copies;  // waived tensor to the tensor it should be a copy of
  std::vector<LayerWaiver> waived_layers;
  std::vector<std::string> missing_tensors;
  std::vector<std::string> warnings;

  std::set<std::string> written_states;  // "name.component" that a node writes already
  std::set<std::string> strings;         // what handles point to, each once
  int64_t kept_bytes = 0;

  Visits* visits = nullptr;  // where the path of the spec is wanted

  ops::Expression* traced = nullptr;  // while a traced function runs
  int32_t trace_serial = 0;
  std::set<std::string> checked_functions;  // bytecode already checked, with its traced arguments

  std::deque<std::string> markup;  // prompt.markup of the modules that are loaded
  PromptScope* prompt = nullptr;   // while a render function runs

  StatusCode error_code = StatusCode::kInvalidData;
};

// A lasting copy of the text for a handle to point to. Raises when there are too many, or the text is too long for a
// name.
const std::string& keep(lua_State* state, const std::string& text);

// Tells the builder which lines of the spec are running: they are what made the nodes to come.
void note_lines(lua_State* state);

// Adds a node and returns its results; raises what the op's table row says. Bounds the size of the graph.
std::vector<ir::ValueId> add_node(lua_State* state, ops::OpKind op, std::span<const ir::ValueId> operands,
                                  ops::Attributes attributes);
ir::ValueId add_node_one(lua_State* state, ops::OpKind op, std::span<const ir::ValueId> operands,
                         ops::Attributes attributes);

}  // namespace firstlight::intake
