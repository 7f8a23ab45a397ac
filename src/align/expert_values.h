// SPDX-License-Identifier: Apache-2.0
// Values inside experts, for recording: per_expert runs its body on the rows of one expert after the other, in an order
// of the batch's, and adds up what comes out. Here each value of the body gets an operator of its own per slot, whose
// rows are the tokens again: slot s of a token is the s-th of its experts by number, whatever order the router gave.
#pragma once

#include <string>
#include <vector>

#include "align/taps.h"
#include "ir/graph.h"

namespace firstlight::align {

struct ExpertValues {
  ir::Graph graph;        // the same values and nodes, and more; their ids stay
  std::vector<Tap> taps;  // "model.layers.0.mlp.expert.linear#2[slot 1]", in the order of the body, slots together
  std::vector<ir::ValueId> behind;  // per tap: the per_expert's result; the tap goes before it
};

// Every value of shape [rows, width] in the bodies of the graph's per_expert operators: body and weights are used as
// they are, each slot with weight 1 (experts that weigh their input: slots in the router's order with its weights). It
// costs a run of the body up to there for each of them: for recording on request. Errors: kInternal where no legal
// graph comes of it.
Result<ExpertValues> with_expert_values(const ir::Graph& graph);

// Whether a recorded value is one of these.
bool is_expert_value(const std::string& name);

}  // namespace firstlight::align
