// SPDX-License-Identifier: Apache-2.0
// How a model's directory says that embeddings are made of its hidden states: the files of sentence-transformers
// (modules.json, and the config of the pooling it names).
#pragma once

#include <string>

#include "base/status.h"
#include "request/embedding.h"

namespace firstlight::adapt {

struct EmbeddingConfig {
  request::Pooling pooling = request::Pooling::kLast;
  bool normalise = true;
  std::string source;  // the file that says so; empty: nothing does, and these are the defaults
};

// Of the directory that `path` is or lies in. Errors: kInvalidData for files that are none of these, kUnsupported for
// modules and poolings that nothing here computes (a dense layer behind the pooling, the maximum), by name.
Result<EmbeddingConfig> read_embedding_config(const std::string& path);

}  // namespace firstlight::adapt
