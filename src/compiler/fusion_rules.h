// SPDX-License-Identifier: Apache-2.0
// What fusion may do on the hardware at hand, read off the target's description: the one place where passes differ
// between a CPU and a GPU.
#pragma once

#include <cstddef>

#include "target/execution.h"

namespace firstlight::compiler {

struct FusionRules {
  // Matrix products that may each normalise one input for themselves. Cheap where a few workers prepare the rows once
  // each; on hundreds of units every one would do it again.
  size_t max_norm_users = 3;
  // A residual sum goes with the norm behind it, as one pass over the rows with two results, rather than into the
  // matrix product before it.
  bool residual_with_norm = false;
};

FusionRules fusion_rules(const target::Execution& execution);

}  // namespace firstlight::compiler
