// SPDX-License-Identifier: Apache-2.0
// What each operator means, written a second time: plain float64 loops over decoded operands, sharing nothing with the
// kernels. The reference bodies are held against these, everything else against the reference bodies.
#pragma once

#include "case.h"

namespace firstlight::conformance {

using Values = std::vector<std::vector<double>>;  // per result, row-major

// Empty where moving bytes is all there is to it (those are compared byte by byte) and for append.
Values formula(const Case& c);

// Of attend and attend_segments; of index_scores; of window_emit (attention_formulas.cc).
Values attend_formula(const Case& c);
Values index_scores_formula(const Case& c);
Values window_emit_formula(const Case& c);
// Of the two operators of quantised checkpoints (quant_formulas.cc).
Values assemble_weight_formula(const Case& c);
Values fake_quant_formula(const Case& c);

// How far a matrix product may be off in a compute mode, per element (docs/numerics.md derives it).
// Per product before an epilogue: values, and how far off each may be.
std::pair<Values, Values> plain_products(const Case& c, catalog::ComputeMode mode);
Values product_tolerance(const Case& c, catalog::ComputeMode mode);

bool is_product(ops::OpKind op);

// Operators that read and update a component of a fixed state (recent_tokens is not one: its state is a log).
bool is_recurrence(ops::OpKind op);

struct RecurrenceAnswer {
  Values results;
  std::vector<std::vector<double>> state;  // the component after the call, per sequence
};
RecurrenceAnswer recurrence(const Case& c);
Values recurrence_formula(const Case& c);  // the results of those operators and of recent_tokens

}  // namespace firstlight::conformance
