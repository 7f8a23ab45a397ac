// SPDX-License-Identifier: Apache-2.0
// What each operator means, written a second time: plain float64 loops over decoded operands, sharing nothing with the
// kernels. The reference bodies are held against these, everything else against the reference bodies.
#pragma once

#include "case.h"

namespace firstlight::conformance {

using Values = std::vector<std::vector<double>>;  // per result, row-major

// Empty where moving bytes is all there is to it (those are compared byte by byte) and for append.
Values formula(const Case& c);

// How far a matrix product may be off in a compute mode, per element (docs/numerics.md derives it).
Values product_tolerance(const Case& c, catalog::ComputeMode mode);

bool is_product(ops::OpKind op);

}  // namespace firstlight::conformance
