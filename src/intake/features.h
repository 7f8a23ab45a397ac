// SPDX-License-Identifier: Apache-2.0
// What a traced model has, apart from its sizes: kinds of layers, kinds of state, the tensors' names with numbers left
// out, which sizes differ from each other, which attributes differ between layers, and the path its spec took. A
// smaller model that has all of these takes every branch that the larger one takes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "intake/trace.h"

namespace firstlight::intake {

struct LayerKind {
  std::string signature;            // a hash of the kind's operators, attributes and weights without sizes
  std::string description;          // "rms_norm, linear, rope, append, attend"
  std::vector<std::string> scopes;  // of the layers of this kind: "model.layers.3"
};

struct Features {
  std::set<std::string> all;     // "layer 1f2e…", "jump std/moe.lua:12>14", "state append …", "sizes differ …"
  std::vector<LayerKind> kinds;  // in the order of their first layers
  int64_t num_layers = 0;
  int64_t logits_width = 0;
  int64_t weights = 0;  // elements of all tensors
  double cost = 0;      // grows with every size, window and count of the graph; facts do not count
};

// Of a trace that was probing (a stack of experts counts as one tensor).
Features features_of(const Trace& trace);

// "model.layers.3.mlp.experts.0.w" → "model.layers.#.mlp.experts.#.w".
std::string without_numbers(const std::string& name);
// "model.layers.3" of "model.layers.3.mlp.w"; "" where no part is a number.
std::string layer_of(const std::string& name);

}  // namespace firstlight::intake
