// SPDX-License-Identifier: Apache-2.0
// Where the weight proxies find the function that maps Hugging Face tensor names onto a GGUF's.
#pragma once

namespace firstlight::intake {

// Registry key of a function: name → GGUF name or nil, and nil or a function that undoes what the file's writer
// changed.
inline constexpr const char* kGgufMapper = "firstlight.gguf_mapper";

}  // namespace firstlight::intake
