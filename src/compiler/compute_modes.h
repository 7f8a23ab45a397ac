// SPDX-License-Identifier: Apache-2.0
// Which compute mode a matrix product runs in.
#pragma once

#include <string_view>

#include "compiler/compile.h"

namespace firstlight::compiler {

// A node's own wish ("f32" or "bf16": no less precise than that; else the choice is left), then the options, then the
// stored type of the weight: block formats w8a8, what bfloat16 holds exactly bf16, everything else f32.
catalog::ComputeMode compute_mode_for(const CompileOptions& options, std::string_view node_wish, tensor::DType weight);

}  // namespace firstlight::compiler
