// SPDX-License-Identifier: Apache-2.0
// Which values of a graph are recorded, and how they are called. The spec's own words name them: a value made by the
// weight of a module has that module's name ("model.layers.0.self_attn.q_proj"), a layer's result the layer's
// ("model.layers.0"), any other its scope and operator ("model.layers.0.self_attn.attend"). Those are the names of the
// vendor's modules as well, so that recordings of the vendor's code meet ours by name (docs/golden_pack.md).
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace firstlight::align {

struct Tap {
  ir::ValueId value = -1;
  std::string name;   // unique
  std::string layer;  // the run of nodes it stands in: "embedding", "model.layers.0", "head"
  std::string op;     // of the node that makes it: "linear"
  tensor::Type type;
  bool is_layer_output = false;
  bool is_module_output = false;  // a vendor's module of that name gives the same

  int64_t width() const;  // elements of a row: of one token, or of one group of tokens
  int64_t rate() const;   // tokens per row
};

// Body nodes that see tokens, in order, each with the layer it belongs to: the scope up to its first number; nodes
// without one stand in "embedding" before the first layer and in "head" behind the last one. A layer whose nodes are
// not together gets "#2", "#3" for its later parts.
struct LayerRun {
  std::string layer;
  std::vector<ir::NodeId> nodes;
};
std::vector<LayerRun> find_layer_runs(const ir::Graph& graph);

// The values worth recording, in the order they are made; the graph's outputs are among them under their own names.
// Without `operators`: layers' results and outputs. A reshape is no value of its own, values without a row per token
// (or group of tokens) and those inside regions are left out.
std::vector<Tap> find_taps(const ir::Graph& graph, bool operators);

// What a node reads, its regions' nodes included; some of it may be their own.
std::vector<ir::ValueId> values_used_by(const ir::Graph& graph, ir::NodeId id);

// Whether a value has a row of f32 or i32 numbers per token (or per row whose logits are wanted: a recording wants
// all), or per group of tokens.
bool has_token_rows(const tensor::Type& type);

// The graph with the taps as its outputs, by their names, and nothing that they do not need.
ir::Graph with_outputs(const ir::Graph& graph, const std::vector<Tap>& taps);

}  // namespace firstlight::align
