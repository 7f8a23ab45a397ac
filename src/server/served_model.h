// SPDX-License-Identifier: Apache-2.0
// The model behind the routes, as the composition root hands it over. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "request/request.h"
#include "server/chat_reading.h"
#include "server/generator.h"
#include "text/tokenizer.h"

namespace firstlight::text {
class ChatRenderer;
}

namespace firstlight::server {

// How embeddings are made, where a request does not say it.
struct ServedEmbeddings {
  request::Pooling pooling = request::Pooling::kLast;
  bool normalise = true;
  bool may_shorten = false;  // to fewer dimensions
  int64_t width = 0;
};

// What the pointers name must outlive the server.
struct ServedModel {
  std::string name;
  Generator* generator = nullptr;
  text::Tokenizer tokenizer;                                        // a copy shares its tables
  const text::ChatRenderer* chat_template = nullptr;                // null: chat requests are refused
  const text::ChatRenderer* tool_template = nullptr;                // for requests with tools; null: the same
  std::vector<std::pair<std::string, std::string>> special_tokens;  // "bos_token", … for the template
  std::shared_ptr<const ChatProfile> chat_profile;                  // how chat answers are read; null: as text
  int64_t context = 2048;   // tokens of prompt and output together that the engine takes
  int64_t max_context = 0;  // the longest that would fit beside the model; 0: not known
  int64_t created_unix_s = 0;
  std::optional<ServedEmbeddings> embeddings;  // absent: /v1/embeddings is refused
  request::SamplingParams default_sampling;    // of fields a request does not have
};

}  // namespace firstlight::server
