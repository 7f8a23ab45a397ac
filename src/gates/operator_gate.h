// SPDX-License-Identifier: Apache-2.0
// The operator gate: every kernel that the plan uses, on the shapes it will meet, against the meaning of its operator.
// The loaded plan runs a few batches of every class (single tokens, tails, a full bucket, several sequences of
// different lengths) while a probe captures calls; the reference bodies compute the same operands, and each element
// must lie where docs/numerics.md says. docs/gates.md says what this sees and what it can not see.
#pragma once

#include "gates/candidate.h"

namespace firstlight::gates {

Result<Verdict> operator_gate(Candidate& candidate);

}  // namespace firstlight::gates
