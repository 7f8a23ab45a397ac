// SPDX-License-Identifier: Apache-2.0
// Lengths at which a model begins to compute otherwise: a window that is full, a chunk that ends, a state that gets its
// first row, a rope beyond its original length, a prompt that no longer fits one run. A prompt that stays below all of
// them proves nothing about what comes behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"

namespace firstlight::gates {

struct Horizon {
  std::string what;    // "window of 512 tokens"
  int64_t length = 0;  // the first position that lies behind it
};

// In ascending order, each length and word once. Of the graph: windows and chunks of attention, rows that it chooses
// among, states, chunks of recurrences, the rope's original length. Of the plan: the tokens one run takes.
std::vector<Horizon> find_horizons(const ir::Graph& graph, const plan::Plan& plan);

}  // namespace firstlight::gates
