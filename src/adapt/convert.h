// SPDX-License-Identifier: Apache-2.0
// A GGUF file as a directory in Hugging Face layout: weights in safetensors (whole or sharded), config.json,
// generation_config.json, tokenizer.json and tokenizer_config.json. What the GGUF's writer changed is undone by the
// nodes that intake puts between a stored tensor and its released form, computed by the reference backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "intake/intake.h"
#include "tensor/dtype.h"

namespace firstlight::adapt {

struct ConvertOptions {
  tensor::DType dtype = tensor::DType::kBF16;  // or kF16, kF32; biases of routers stay in float32
  uint64_t max_shard_bytes = 0;                // of tensors per file; 0: everything in one file
  int num_threads = 0;                         // 0: the cores this process may use
  intake::IntakeOptions intake;
  std::function<void(int64_t done, int64_t total)> progress;  // in elements
};

struct ConvertedTensor {
  std::string name;
  double error = 0;  // max |written - exact| / max |exact|, exact being the decoded value; 0 for a tensor of zeros
};

struct Conversion {
  std::vector<ConvertedTensor> tensors;  // in the order of their names
  std::vector<std::string> files;        // everything written, full paths
  std::vector<std::string> warnings;     // what could not be carried over, and why
};

// Writes into `directory`, which is made if it does not exist and must else be empty. One tensor is worked on at a
// time: memory holds a few MiB for one that is stored as it is released, and the tensor (in float32, a few times) for
// one that has to be put together. Errors: kInvalidArgument (no GGUF, a directory with content, another type, a value
// beyond the range of f16), kInvalidArgument (disk), and those of intake. On an error nothing that was written stays.
Result<Conversion> convert(const std::string& source, const std::string& directory, const ConvertOptions& options);

}  // namespace firstlight::adapt
