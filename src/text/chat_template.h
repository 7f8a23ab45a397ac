// SPDX-License-Identifier: Apache-2.0
// Chat templates: from messages and tools to the text of a prompt, by the model's own Jinja template, byte for byte as
// transformers renders it. The result says which bytes are the template's scaffolding and which came from outside, so
// that only the former can become control tokens. Heavy header (base/json.h): include it in .cc files only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/chat_renderer.h"

namespace firstlight::text {

namespace jinja {
struct Tree;
}

class ChatTemplate final : public ChatRenderer {
 public:
  // Errors: kInvalidData for syntax, kUnsupported for what the engine does not carry; both name template, construct,
  // line.
  static Result<ChatTemplate> compile(std::string_view source, std::string name);

  // The template's own words of a refusal are those it gives raise_exception.
  Result<RenderedPrompt> render(const ChatContext& context) const override;

  // The context's members as plain variables, without looking at messages: what transformers would show the template.
  Result<RenderedPrompt> render_plain(const Json& variables,
                                      const std::vector<std::pair<std::string, std::string>>& special_tokens,
                                      std::optional<int64_t> now_unix_s) const;

  const std::string& name() const override { return name_; }

  // What the template can take, found by rendering small probes when it is compiled.
  struct Abilities {
    bool text_content = true;         // content as a string
    bool part_content = false;        // content as a list of parts, in user messages
    bool part_tool_content = false;   // the same in tool results
    bool needs_null_content = false;  // tool calls are only rendered when content is none
    bool string_arguments = false;    // tool call arguments are pasted as text, not as an object
  };
  const Abilities& abilities() const { return abilities_; }

 private:
  ChatTemplate() = default;
  void probe();
  bool renders(const Json& messages, std::string_view wanted, std::string_view unwanted) const;
  Result<Json> normalize(const Json& messages) const;

  std::string name_;
  std::shared_ptr<const jinja::Tree> tree_;
  Abilities abilities_;
};

// The template texts of a model: a default one and, in some models, one for prompts with tools.
struct ChatTemplateSource {
  std::string name;  // "default", "tool_use", …
  std::string text;
};

// The `chat_template` of a tokenizer_config.json: a string, or a list of {name, template}. A chat_template.jinja beside
// it
// (`jinja_file`, empty if absent) takes the default's place. Errors: kNotFound if there is none, kInvalidData for other
// forms.
Result<std::vector<ChatTemplateSource>> read_chat_templates(const Json& tokenizer_config, std::string_view jinja_file);
// "tool_use" when tools are given and it exists, else "default", else the only one. Errors: kNotFound.
Result<ChatTemplateSource> select_chat_template(const std::vector<ChatTemplateSource>& sources, bool has_tools);

// `render --template FILE --context FILE`: a template over the members of a JSON object, nothing normalised.
Result<RenderedPrompt> render_template(std::string_view template_text, std::string_view context_json,
                                       std::optional<int64_t> now_unix_s = std::nullopt);

}  // namespace firstlight::text
