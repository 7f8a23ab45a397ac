// SPDX-License-Identifier: Apache-2.0
// The compiler's options for one model: what bring-up options leave open and the model's weights decide.
#pragma once

#include "adapt/bring_up.h"
#include "ir/graph.h"

namespace firstlight::adapt {

// compile_options() with the state stored as compiler::usual_state_dtype says, unless `options` say it.
compiler::CompileOptions compile_options(const BringUpOptions& options, const target::CpuTarget& target,
                                         const ir::Graph& graph);

}  // namespace firstlight::adapt
