// SPDX-License-Identifier: Apache-2.0
// Formulas without what needs no computing: numbers of numbers, sums with 0, factors of 1.
#pragma once

#include "ops/expression.h"

namespace firstlight::compiler {

// The same value for every input; x + 0 and x - 0 count as x (they differ for -0 alone).
ops::Expression simplified(const ops::Expression& formula);

}  // namespace firstlight::compiler
