// SPDX-License-Identifier: Apache-2.0
// Cases derived from a case, for every operator alike: the same call with values that break careless code (NaN,
// infinities, subnormal numbers, zeros of both signs, ties, numbers near the ends, indices outside, broken scales of
// block formats), with other sizes (nothing at all, the tails around every vector width, 256 rows) and with other
// batches (256 sequences, a sequence of 64k).
#pragma once

#include <set>

#include "case.h"

namespace firstlight::conformance {

struct Variant {
  Case c;
  int operand = -1;  // whose values were changed; -1: a state's, or sizes
  int64_t row = -1;  // where one element was spoiled: its index on the operand's first axis
};

// `seen`: the kinds of calls (operator, types, attributes) that have had other sizes already; those get values alone.
std::vector<Variant> hostile_variants(const Case& c, std::set<std::string>& seen);

// Every variant of every case of an operator.
std::vector<Variant> hostile_cases(ops::OpKind op);

}  // namespace firstlight::conformance
