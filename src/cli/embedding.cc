// SPDX-License-Identifier: Apache-2.0
#include "cli/embedding.h"

#include <cstdio>

#include "cli/context.h"

namespace firstlight::cli {

Result<adapt::EmbeddingConfig> embedding_config(const CommonFlags& common, const EmbeddingFlags& flags) {
  adapt::EmbeddingConfig config = FL_TRY(adapt::read_embedding_config(common.model));
  if (!flags.pooling.empty()) config.pooling = FL_TRY(request::parse_pooling(flags.pooling).with_context("--pooling"));
  if (flags.no_normalise) config.normalise = false;
  return config;
}

Result<std::vector<std::vector<float>>> embed(Session& session, const std::vector<std::vector<int32_t>>& texts,
                                              request::Pooling pooling) {
  const ContextChoice choice = FL_TRY(choose_context(*session.loaded, {}));
  if (!choice.note.empty()) std::fprintf(stderr, "note: %s\n", choice.note.c_str());
  const auto engine =
      FL_TRY(engine::Engine::create(*session.loaded->executor, {.max_context = choice.context,
                                                                .max_waiting = static_cast<int64_t>(texts.size()) + 1,
                                                                .state_capacity_bytes = choice.state_bytes,
                                                                .reuse_prefixes = false}));
  std::vector<std::vector<float>> vectors(texts.size());
  Status error;
  for (size_t i = 0; i < texts.size(); ++i) {
    request::Request request{.id = "embed-" + std::to_string(i), .prompt = texts[i], .embed = pooling};
    auto ticket = engine->submit(std::move(request), [&, i](const request::TokenEvent& event) {
      if (event.finish == request::FinishReason::kError) error = event.error;
      vectors[i] = event.embedding;
    });
    FL_TRY(std::move(ticket).with_context("text " + std::to_string(i + 1)));
  }
  engine->run_until_idle();
  FL_TRY(std::move(error));
  return vectors;
}

}  // namespace firstlight::cli
