// SPDX-License-Identifier: Apache-2.0
// The container of rwkv.cpp (magic "ggmf", version 101), from bytes: six numbers, then tensors to the end of the file,
// each with its header before its data. Shapes are stored innermost axis first. What the tensors mean is not known
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "formats/tensor_file.h"

namespace firstlight::formats {

constexpr uint32_t kGgmfMagic = 0x67676d66;

struct GgmfFile {
  int64_t num_vocabulary = 0;  // each of the three at least 1
  int64_t width = 0;
  int64_t num_layers = 0;
  std::vector<TensorRecord> tensors;  // in file order; names differ; the data of each lies inside the bytes
};

// Errors: kInvalidData (malformed; the message names tensor, value found and value wanted), kUnsupported (another
// version, a quantisation that ggml has given up).
Result<GgmfFile> parse_ggmf(std::span<const std::byte> bytes);

}  // namespace firstlight::formats
