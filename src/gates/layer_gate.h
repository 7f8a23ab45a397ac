// SPDX-License-Identifier: Apache-2.0
// The layer gate: one layer of each kind, alone, with the inputs that the reference backend gives it; whole prompts,
// chunks and single tokens. Three ways: the reference in float32, the reference with the operands rounded as the tested
// backend rounds them, the tested backend. docs/gates.md says what this sees and what it can not see.
#pragma once

#include "gates/candidate.h"

namespace firstlight::gates {

// `tested`: the graph that the backend runs in place of the model's; has the same values. Null: the model's own.
Result<Verdict> layer_gate(Candidate& candidate, const ir::Graph* tested);
Result<Verdict> layer_gate(Candidate& candidate);

}  // namespace firstlight::gates
