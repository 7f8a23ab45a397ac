// SPDX-License-Identifier: Apache-2.0
// Embeddings of texts by a loaded model, several at a time through an engine of their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adapt/embedding_config.h"
#include "cli/session.h"

namespace firstlight::cli {

struct EmbeddingFlags {
  std::string pooling;  // "": what the model's files say, else the last token
  bool no_normalise = false;
};

// The model's own way, but where flags say otherwise. Errors: those of read_embedding_config, and of a word for the
// pooling that nobody knows.
Result<adapt::EmbeddingConfig> embedding_config(const CommonFlags& common, const EmbeddingFlags& flags);

// One vector per text (ids), in order, not cut and not normalised; `session` was opened with hidden states. Errors:
// those of engine::Engine::submit, with the number of the text.
Result<std::vector<std::vector<float>>> embed(Session& session, const std::vector<std::vector<int32_t>>& texts,
                                              request::Pooling pooling);

}  // namespace firstlight::cli
