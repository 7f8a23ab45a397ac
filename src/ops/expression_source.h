// SPDX-License-Identifier: Apache-2.0
// A formula as C: what generated kernels are made of, on the CPU and in the device dialect alike. The surrounding
// source defines the functions: fl_exp, fl_min, … take and give float.
#pragma once

#include <span>
#include <string>

#include "ops/expression.h"

namespace firstlight::ops {

struct ExpressionSource {
  std::string statements;  // "const float t0 = fl_exp(x);\n…", each line behind `indent`
  std::string value;       // of the formula: a name or a literal
};

// `inputs[i]` is the C text of x<i>, a float without side effects; `prefix` begins the names of temporaries ("t" gives
// t0, t1, …). Constants are rounded to float32. Formulas of integers (xor, mod) have no such form: FL_CHECKs.
ExpressionSource expression_source(const Expression& expression, std::span<const std::string> inputs,
                                   std::string_view prefix, std::string_view indent);

// A float32 literal of C: "0.5f", "-FL_INFINITY", "FL_NAN".
std::string float_literal(double value);

}  // namespace firstlight::ops
