// SPDX-License-Identifier: Apache-2.0
// Decoders of the block formats, one function per format: `num_blocks` blocks at `in` (unaligned) become
// num_blocks * block_elements floats at `out`. Internal to the codec; callers use decode_to_f32.
//
// Layouts and formulas are those of gguf-py/gguf/quants.py in ggml-org/llama.cpp. All products below are exact in
// float32 (a 11-bit half times small integers), so each element is rounded at most once: the order of operations is no
// choice.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace firstlight::tensor {

// `type` is a block format (dtype_info(type).is_quantised).
void decode_blocks(DType type, const std::byte* in, size_t num_blocks, float* out);

}  // namespace firstlight::tensor
