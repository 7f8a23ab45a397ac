// SPDX-License-Identifier: Apache-2.0
// A checkpoint in floating point as one in a vendor's weight format (docs/weight_formats.md), by rounding to nearest:
// INT4 and INT8 in the words of compressed-tensors (pack-quantized), FP8 E4M3 in blocks of 128 x 128, MXFP4 of
// compressed-tensors. Matrices of linear layers and of experts are quantised; embeddings, heads, routers and whatever
// else is asked for stay as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "intake/intake.h"

namespace firstlight::adapt {

enum class QuantFormat : uint8_t { kInt8, kInt4, kFp8, kMxfp4 };

struct QuantiseOptions {
  QuantFormat format = QuantFormat::kInt8;
  int64_t group = 128;  // columns that share a scale of INT4 and INT8; where they do not come out even, the row
  std::vector<std::string> keep;  // modules to leave alone: names, globs or "re:" expressions (intake/name_pattern.h)
  uint64_t max_shard_bytes = 0;   // of tensors per file; 0: everything in one file
  intake::IntakeOptions intake;
  std::function<void(int64_t done, int64_t total)> progress;  // in elements
};

// What rounding did to a tensor, in float64 over all its elements.
struct QuantisedTensor {
  std::string name;
  std::string format;        // "int4, groups of 128"; of one that was kept: its type
  std::string kept_because;  // "" of a quantised one
  double max_abs = 0;        // max |q - w|
  double relative_l2 = 0;    // |q - w| / |w|
  double sqnr_db = 0;        // 20 log10 (|w| / |q - w|); infinite where nothing changed
  int64_t elements = 0;
  int64_t bytes_before = 0, bytes_after = 0;
};

struct QuantisedCheckpoint {
  std::vector<QuantisedTensor> tensors;  // in the order of their names
  std::vector<std::string> files;        // everything written, full paths
  std::vector<std::string> warnings;
};

// `source`: a directory in Hugging Face layout. Tensors are read, rounded and written a few rows at a time. Errors:
// those of intake; kInvalidArgument (a GGUF, a pattern that matches nothing, a directory with content), kUnsupported (a
// checkpoint that is quantised already), kInvalidData (a weight that is no finite number), kInvalidArgument (disk). On an
// error nothing that was written stays.
Result<QuantisedCheckpoint> quantise(const std::string& source, const std::string& directory,
                                     const QuantiseOptions& options);

}  // namespace firstlight::adapt
