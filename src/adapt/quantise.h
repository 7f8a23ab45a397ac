// SPDX-License-Identifier: Apache-2.0
// A checkpoint in floating point as one in a vendor's weight format (docs/weight_formats.md), by rounding to nearest:
// INT4 and INT8 in the words of compressed-tensors (pack-quantized), FP8 E4M3 in blocks of 128 x 128, MXFP4 of
// compressed-tensors, or a mixture of them by a policy. Matrices of linear layers and of experts, in stacks too, are
// quantised; embeddings, heads, routers and whatever else is asked for stay as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adapt/quant_policy.h"
#include "base/status.h"
#include "intake/intake.h"

namespace firstlight::adapt {

struct QuantiseOptions {
  QuantPolicy policy;            // uniform_policy() for one format
  uint64_t max_shard_bytes = 0;  // of tensors per file; 0: everything in one file
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

struct QuantJob;
class QuantPlanner;

struct QuantisedCheckpoint {
  std::vector<QuantisedTensor> tensors;  // in the order of their names
  std::vector<std::string> files;        // everything written, full paths
  std::vector<std::string> warnings;
};

// The tensors of `jobs` that are stored anew, without the others, in the file it returns.
Result<std::string> write_variant(const QuantPlanner& planner, const std::vector<QuantJob>& jobs,
                                  const std::string& directory);

// What rounding a tensor so does to it; nothing is written.
Result<QuantisedTensor> measure_rounding(const QuantPlanner& planner, const QuantJob& job);

// `source`: a directory in Hugging Face layout. Tensors are read, rounded and written a few rows at a time. Errors:
// those of intake; kInvalidArgument (a GGUF, a pattern that matches nothing, a directory with content), kUnsupported (a
// checkpoint that is quantised already), kInvalidData (a weight that is no finite number), kInvalidArgument (disk). On an
// error nothing that was written stays.
Result<QuantisedCheckpoint> quantise(const std::string& source, const std::string& directory,
                                     const QuantiseOptions& options);

}  // namespace firstlight::adapt
