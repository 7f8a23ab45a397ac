// SPDX-License-Identifier: Apache-2.0
// How the answers of a model, and those of one request, are read: what the parser of answers (text/chat/) needs to
// know, put together once per model and once per request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "server/api_error.h"
#include "text/chat/chat_format.h"
#include "text/chat/tool_set.h"
#include "text/tokenizer.h"

namespace firstlight::server {

// Of a model.
struct ChatProfile {
  std::shared_ptr<const text::ChatFormat> format;
  // Special tokens that are pieces of marks, in ascending order: with calls looked for, and without.
  std::vector<int32_t> marks_with_calls, marks_without_calls;
};
std::shared_ptr<const ChatProfile> make_chat_profile(text::ChatFormat format, const text::Tokenizer& tokenizer);

// Of a request; shared by its choices.
struct ChatReading {
  std::shared_ptr<const ChatProfile> profile;
  std::shared_ptr<const text::ToolSet> tools;  // null: calls stay text
  bool one_call = false;                       // parallel_tool_calls: false
  bool is_named = false;                       // the call was asked for by its name: it is no reason to stop
  bool only_calls = false;                     // were asked for: what is cut off in the head of one is no text
  bool show_reasoning = true;                  // include_reasoning
  std::string prompt_end;                      // what of the prompt the answer goes on from
  std::string continued;                       // the message that it goes on

  const std::vector<int32_t>& marks() const {
    return tools == nullptr ? profile->marks_without_calls : profile->marks_with_calls;
  }
};

// Null where there is nothing to read in the answer. `profile` may be null.
std::shared_ptr<ChatReading> make_chat_reading(std::shared_ptr<const ChatProfile> profile, const Json& tools,
                                               std::string_view prompt_end);

// What reasoning_effort means in template variables; those that `variables` has already stay as they are. Errors: the
// model's prompts know no such thing.
ApiError apply_reasoning_effort(const ChatProfile* profile, const std::string& effort, Json& variables);

}  // namespace firstlight::server
