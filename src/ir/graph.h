// SPDX-License-Identifier: Apache-2.0
// The intermediate representation: one model as a graph of operators in static single assignment, with regions for
// control flow. Plain data; what makes a graph legal stands in ir/verify.h, its text form in ir/text.h. Ids are indices
// and stay valid while a graph grows; passes that drop things rebuild it with ir/rewrite.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/op.h"
#include "ops/state.h"
#include "tensor/type.h"

namespace firstlight::ir {

using ValueId = int32_t;
using NodeId = int32_t;

struct Value {
  enum class Kind : uint8_t {
    kInput,      // of the batch: %tokens, %positions, %output_rows
    kWeight,     // a tensor of the checkpoint, @name
    kState,      // the state of the sequences as the run finds it, $name
    kParameter,  // of a region
    kResult,     // of a node
  };
  Kind kind = Kind::kResult;
  std::string name;  // inputs, weights and states have one; results only where the spec gave it
  tensor::Type type;
  NodeId producer = -1;  // kResult
  int32_t state = -1;    // index into Graph::states, for values of state type
};

struct Region {
  std::vector<ValueId> parameters;
  std::vector<NodeId> nodes;  // in execution order; operands stand before their users
  std::vector<ValueId> yields;
};

struct Node {
  ops::OpKind op;
  std::vector<ValueId> operands;  // optional ones may be missing at the end
  ops::Attributes attributes;
  std::vector<ValueId> results;
  std::vector<Region> regions;
  std::string scope;  // where in the model: "model.layers.3.self_attn"
  // The spec's lines that made it, inner one first: "std/norm.lua:12, llama.lua:30"; empty where no spec did. For
  // messages alone: no part of text form, fingerprint or comparison.
  std::string made_at = {};
};

// Where a weight's bytes come from: the tensor of the checkpoint, by its name there.
struct WeightSource {
  std::string tensor;  // the same as the weight's name, but for files with their own naming (GGUF)
};

// Regions are handed out by reference while nodes are added: growing `Graph::nodes` must move nodes, never copy them.
static_assert(std::is_nothrow_move_constructible_v<Node>);

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ops::StateDecl> states;
  Region body;  // parameters: the batch's inputs; yields: the outputs' values, in order
  std::vector<std::string> output_names;
  std::map<std::string, WeightSource, std::less<>> weight_sources;  // by weight name
  // Facts about the model that are not computation: "max_positions", "eos_token_ids", ...
  ops::Attributes metadata;

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes[static_cast<size_t>(id)]; }
  const ops::StateDecl* state_of(ValueId id) const {
    const int32_t state = value(id).state;
    return state < 0 ? nullptr : &states[static_cast<size_t>(state)];
  }
  // Of those of the values that are states, in order.
  std::vector<const ops::StateDecl*> states_of(std::span<const ValueId> ids) const {
    std::vector<const ops::StateDecl*> found;
    for (const ValueId id : ids) {
      if (value(id).type.is_state() && value(id).state >= 0) found.push_back(state_of(id));
    }
    return found;
  }
};

}  // namespace firstlight::ir
