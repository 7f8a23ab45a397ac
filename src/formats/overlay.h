// SPDX-License-Identifier: Apache-2.0
// A checkpoint with some of its tensors stored otherwise, in a file of their own: for comparing a few variants of a
// large checkpoint without copying the rest of it.
#pragma once

#include <set>
#include <string>

#include "formats/tensor_file.h"

namespace firstlight::formats {

// `base` (safetensors) without the tensors named `hidden`, and with all tensors of the safetensors file `extra`.
// Errors: those of reading the file; kInvalidArgument (a GGUF); kInvalidData (a tensor that is in both).
Result<Checkpoint> overlay(Checkpoint base, const std::set<std::string, std::less<>>& hidden, const std::string& extra);

}  // namespace firstlight::formats
