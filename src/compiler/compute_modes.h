// SPDX-License-Identifier: Apache-2.0
// Which compute mode a matrix product runs in.
#pragma once

#include <string_view>

#include "compiler/compile.h"

namespace firstlight::compiler {

// A node's own wish ("f32" raises the precision for good, "auto" leaves the choice), then the options, then the stored
// type of the weight.
catalog::ComputeMode compute_mode_for(const CompileOptions& options, std::string_view node_wish, tensor::DType weight);

std::string_view compute_mode_name(catalog::ComputeMode mode);  // "f32", "bf16", "int8"

}  // namespace firstlight::compiler
