// SPDX-License-Identifier: Apache-2.0
// What each operator means, written a second time: plain float64 loops over decoded operands, sharing nothing with the
// kernels. The reference bodies are held against these, everything else against the reference bodies.
#pragma once

#include "case.h"
#include "judge/products.h"

namespace firstlight::conformance {

// Empty where moving bytes is all there is to it (those are compared byte by byte) and for append.
Values formula(const Case& c);

// Of attend and attend_segments; of index_scores; of window_emit (attention_formulas.cc).
Values attend_formula(const Case& c);
Values index_scores_formula(const Case& c);
Values window_emit_formula(const Case& c);
// Of the two operators of quantised checkpoints (quant_formulas.cc).
Values assemble_weight_formula(const Case& c);
Values fake_quant_formula(const Case& c);

struct RecurrenceAnswer {
  Values results;
  std::vector<std::vector<double>> state;  // the component after the call, per sequence
};
RecurrenceAnswer recurrence(const Case& c);
Values recurrence_formula(const Case& c);  // the results of those operators and of recent_tokens

}  // namespace firstlight::conformance
