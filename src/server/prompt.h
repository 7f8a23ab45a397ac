// SPDX-License-Identifier: Apache-2.0
// From what a request says to token ids: templates, tokenising, and the check against the context. The slow part of a
// request before the engine; runs on the work queue. Heavy header (openai_api.h): include it in .cc files only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/chat_reading.h"
#include "server/openai_api.h"
#include "server/served_model.h"

namespace firstlight::server {

struct PreparedPrompt {
  std::vector<int32_t> ids;
  int64_t max_tokens = 0;                      // of output; with the prompt within the context; 0: the prompt alone
  std::string echo;                            // the prompt's text, where the answer begins with it,
  std::vector<int64_t> offsets;                // and, where it is scored too, the character at which each token begins
  std::shared_ptr<const ChatReading> reading;  // of a chat's answer; null: all of it is text
  // What the answer is held to, marks and thoughts included, where that is more than the request's constraint; and
  // what comes of either (constraint_fields.h).
  std::optional<text::grammar::ConstraintSpec> frame;
  std::shared_ptr<const text::grammar::Constraint> constraint;
};

// The prompts of the request, in order. Rendered chat gets no special tokens but the template's own, and text of
// messages never becomes control tokens; a raw text prompt follows the tokenizer's setting.
ApiError prepare_prompts(const ServedModel& model, const ApiRequest& request, std::vector<PreparedPrompt>& prompts);

// Whether the vocabulary has all of them.
ApiError check_ids(const std::string& field, const std::vector<int32_t>& ids, int64_t vocab_size);

// The ids of a request's messages, whatever their number (`trusted_end`: the end of their text, where it is the
// template's own); of a text, with what the tokenizer adds where the request
// says so.
ApiError encode_chat(const ServedModel& model, const ApiRequest& request, std::vector<int32_t>& ids,
                     std::string* trusted_end = nullptr);
ApiError encode_text(const ServedModel& model, const ApiRequest& request, const std::string& field,
                     const std::string& text, std::vector<int32_t>& ids);

}  // namespace firstlight::server
