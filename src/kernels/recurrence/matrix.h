// SPDX-License-Identifier: Apache-2.0
// What gla and delta share on the CPU: heads dealt out to the workers, each through its sequence chunk by chunk.
#pragma once

#include "kernels/common/fixed_state.h"
#include "kernels/recurrence/form.h"

namespace firstlight::kernels {

// Where the operands of one operator stand; -1: it has none.
struct MatrixOperands {
  int beta = -1;
  int bonus = -1;
};

void run_matrix_recurrence(const KernelCall& call, Worker& worker, const RecurrenceForm& form,
                           const MatrixOperands& places);

}  // namespace firstlight::kernels
