// SPDX-License-Identifier: Apache-2.0
// From messages to a prompt, by whatever a model has for it: a template (chat_template.h) or a function of its spec
// (intake/spec_renderer.h). The result says which bytes are the renderer's own and which came from outside, so that
// only the former can become control tokens. Heavy header (base/json.h): include it in .cc files only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/segment.h"

namespace firstlight::text {

// What a prompt is made from.
struct ChatContext {
  Json messages = Json::array();  // OpenAI form: role, content (text, parts or null), tool_calls, …
  Json tools;                     // array of tools, or null
  bool add_generation_prompt = true;
  Json variables = Json::object();  // further variables (enable_thinking, documents, …); untrusted
  // What the request asks of the answer, for formats that tell the model; null: not said. Templates do not see them.
  Json tool_choice;
  Json response_format;
  // Special tokens by the name templates use ("bos_token", "eos_token", …); trusted.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::optional<int64_t> now_unix_s;  // what strftime_now shows, in UTC; absent: the machine's local time
};

struct RenderedPrompt {
  std::vector<Segment> segments;  // neighbours differ in trust; joined they are the prompt
  std::string text() const {
    std::string out;
    for (const Segment& segment : segments) out += segment.text;
    return out;
  }
  // The end of the prompt as far as it is the renderer's own: what reads the answer goes by it.
  std::string trusted_end() const {
    return segments.empty() || !segments.back().trusted ? std::string() : segments.back().text;
  }
};

// Immutable; render() may be called from any number of threads.
class ChatRenderer {
 public:
  virtual ~ChatRenderer() = default;

  // Errors: kInvalidArgument with the renderer's own words where it refuses the messages, or for malformed ones;
  // kInvalidData where it fails on this input or exceeds its limits; kUnsupported for content it has no place for.
  virtual Result<RenderedPrompt> render(const ChatContext& context) const = 0;

  // For messages: where the renderer came from.
  virtual const std::string& name() const = 0;

 protected:
  ChatRenderer() = default;
  ChatRenderer(const ChatRenderer&) = default;
  ChatRenderer(ChatRenderer&&) = default;
  ChatRenderer& operator=(const ChatRenderer&) = default;
  ChatRenderer& operator=(ChatRenderer&&) = default;
};

// The prompt that ends with the words of the last message, an assistant's, for the model to go on from: the prompt of
// all messages, cut behind them. Errors: as render()'s; kInvalidArgument where the last message is no assistant's with
// text and without calls, or the format does not end with its words.
Result<RenderedPrompt> render_continuation(const ChatRenderer& renderer, ChatContext context);

}  // namespace firstlight::text
