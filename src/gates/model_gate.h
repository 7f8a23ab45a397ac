// SPDX-License-Identifier: Apache-2.0
// The model gate: the logits of golden prompts, and the tokens chosen by them.
#pragma once

#include "gates/candidate.h"

namespace firstlight::gates {

// Against the baseline of the options, or one that the reference backend makes. Leaves the golden in the candidate.
Result<Verdict> model_gate(Candidate& candidate);

}  // namespace firstlight::gates
