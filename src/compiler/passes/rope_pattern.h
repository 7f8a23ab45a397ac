// SPDX-License-Identifier: Apache-2.0
// A rotary embedding written out in primitives, recognised: for select_composites.
#pragma once

#include <optional>

#include "compiler/formula_algebra.h"

namespace firstlight::compiler {

struct RopePattern {
  ir::ValueId x = -1;          // f32[T, H, D]
  ir::ValueId positions = -1;  // i32[T]
  ops::Attributes attributes;  // of rope
};

// The rope that the node's result is, in one of these forms; nullopt: none. c and s are cos and sin of positions (as
// [T, 1, 1]) times a constant of frequencies; a and b the halves of x, or of a part of it, cut out by slice; the
// formulas in any order, c and s perhaps scaled.
//   concat([rest,] a c - b s, b c + a s [, rest])      halves
//   x cat(c, c) + cat(-b, a) cat(s, s)                  halves, the whole head; the table may be doubled instead
//   reshape(stack(a c - b s, b c + a s, axis = -1))     a the even columns, b the odd ones
std::optional<RopePattern> find_rope(const ir::Graph& graph, FormulaAlgebra& algebra, const ir::Node& node);

}  // namespace firstlight::compiler
