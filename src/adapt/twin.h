// SPDX-License-Identifier: Apache-2.0
// A tiny checkpoint of a model's architecture: the smallest config whose graph has every feature of the original's
// (intake/shrink.h), random weights or slices of the model's own, and the files that loaders want beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "intake/shrink.h"
#include "tensor/dtype.h"

namespace firstlight::adapt {

struct TwinOptions {
  uint64_t seed = 0;
  tensor::DType dtype = tensor::DType::kBF16;  // or kF32, of the same values
  bool from_weights = false;  // slices of the model's tensors from their first elements on, in place of random ones
  intake::IntakeOptions intake;
};

struct Twin {
  intake::Shrunk shrunk;
  std::vector<std::string> routers;  // "top 2 of 8 (model.layers.#.mlp)"
  std::vector<std::string> windows;  // "16 rows of kv.#"
  std::vector<std::string> states;
  int64_t prompt = 0;  // tokens that go past every window and complete every group
  int64_t num_tensors = 0, num_weights = 0;
  std::vector<std::string> files;  // everything written, full paths
  std::vector<std::string> notes;  // what was left out, and what was made up
};

// `source`: a directory with a config.json, and what else there is of the model; or the config.json itself. Values
// are those of BF16, the same for the same seed. Errors: those of intake; kInvalidArgument (a GGUF, a directory with
// content), kNotFound and kUnsupported (a tensor to slice that is not there, or quantised).
Result<Twin> make_twin(const std::string& source, const std::string& directory, const TwinOptions& options);

}  // namespace firstlight::adapt
