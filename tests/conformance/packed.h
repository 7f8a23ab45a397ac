// SPDX-License-Identifier: Apache-2.0
// A product's case with its weights as the CPU's matrix kernels want them.
#pragma once

#include <optional>

#include "case.h"

namespace firstlight::conformance {

// Nothing where there are no weights to pack.
std::optional<Case> packed(const Case& c);

}  // namespace firstlight::conformance
