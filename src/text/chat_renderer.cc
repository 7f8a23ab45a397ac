// SPDX-License-Identifier: Apache-2.0
#include "text/chat_renderer.h"

namespace firstlight::text {
namespace {

// A word that is in none of the messages.
std::string unused_word(const Json& messages) {
  const std::string all = dump_json(messages);
  std::string word = "qZcontinueZq";
  while (all.find(word) != std::string::npos) word += "Zq";
  return word;
}

// Cuts the prompt where the word begins; false where it is not in it, once and as text of a message.
bool cut_at(RenderedPrompt& prompt, const std::string& word) {
  size_t found = prompt.segments.size(), at = 0;
  for (size_t i = 0; i < prompt.segments.size(); ++i) {
    const std::string& text = prompt.segments[i].text;
    const size_t first = text.find(word);
    if (first == std::string::npos) continue;
    if (found != prompt.segments.size() || prompt.segments[i].trusted || text.rfind(word) != first) return false;
    found = i;
    at = first;
  }
  if (found == prompt.segments.size()) return false;
  prompt.segments.resize(found + 1);
  prompt.segments.back().text.resize(at);
  if (at == 0) prompt.segments.pop_back();
  return true;
}

}  // namespace

Result<RenderedPrompt> render_continuation(const ChatRenderer& renderer, ChatContext context) {
  if (!context.messages.is_array() || context.messages.empty()) return invalid_argument("no message to continue");
  Json& last = context.messages.back();
  const std::string name = "messages[" + std::to_string(context.messages.size() - 1) + "]";
  if (!last.is_object() || !last.contains("role") || last["role"] != "assistant") {
    return invalid_argument(name + ": an assistant's message wanted, to be continued");
  }
  const bool has_text = last.contains("content") && last["content"].is_string();
  if (!has_text || (last.contains("tool_calls") && !last["tool_calls"].empty())) {
    return invalid_argument(name + ": only text can be continued, not calls or parts");
  }
  // A word behind the text marks its end: templates may trim what they show, but not in the middle.
  const std::string word = unused_word(context.messages);
  last["content"] = last["content"].get<std::string>() + word;
  context.add_generation_prompt = false;
  RenderedPrompt prompt = FL_TRY(renderer.render(context));
  if (!cut_at(prompt, word)) {
    return invalid_argument(name + ": cannot be continued, since the model's format does not show its text once");
  }
  return prompt;
}

}  // namespace firstlight::text
