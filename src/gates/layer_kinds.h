// SPDX-License-Identifier: Apache-2.0
// The layers of a model that are alike: pieces of its graph with the same operators, attributes and types, whatever
// their weights and states are called.
#pragma once

#include <string>
#include <vector>

#include "align/segments.h"

namespace firstlight::gates {

struct LayerKind {
  std::vector<size_t> segments;  // of the cut, ascending; the first one stands for all
  std::string name;              // of that layer
};

// In the order of the first of each.
std::vector<LayerKind> layer_kinds(const align::Cut& cut);

}  // namespace firstlight::gates
