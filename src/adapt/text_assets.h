// SPDX-License-Identifier: Apache-2.0
// The text side of a model: tokenizer, chat template, the strings of its special tokens; whatever files they come from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/tensor_file.h"
#include "intake/intake.h"
#include "text/tokenizer.h"

namespace firstlight::text {
class ChatRenderer;
}

namespace firstlight::adapt {

// Where prompts of chats come from, where there is a choice.
enum class ChatSource : uint8_t {
  kAuto,      // the checkpoint's own template; the spec's render function where it has none that compiles
  kTemplate,  // the template or nothing
  kSpec,      // the render function or nothing
};

struct TextOptions {
  ChatSource chat = ChatSource::kAuto;
  intake::IntakeOptions intake;  // which specs
};

struct TextAssets {
  TextAssets();
  TextAssets(TextAssets&&) noexcept;
  TextAssets& operator=(TextAssets&&) noexcept;
  ~TextAssets();

  std::optional<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatRenderer> chat_template;                // or render function; null: the model has neither
  std::unique_ptr<text::ChatRenderer> tool_chat_template;           // null: tools use the same
  std::string chat_template_text;                                   // of both templates, as they are written
  std::vector<std::pair<std::string, std::string>> special_tokens;  // "bos_token" -> "<s>", for templates
  std::string tokenizer_error;                                      // why there is no tokenizer
  std::string chat_template_error;                                  // why there is none, or why not the first choice
  std::string tokenizer_source, chat_template_source;               // the file, metadata key or spec each was read from

  // The tokenizer, or the Status that says why there is none.
  Result<text::Tokenizer> require_tokenizer() const;
};

// Reads what is there; a broken tokenizer or template is no failure until somebody needs it. `path` is a directory with
// tokenizer files, a GGUF file (vocabulary-only ones too) or a single tokenizer file. `checkpoint` may be null.
TextAssets load_text_assets(const std::string& path, const formats::Checkpoint* checkpoint,
                            const TextOptions& options = {});

// Token ids that end an answer: the model's facts and the tokenizer's own, without doubles.
std::vector<int32_t> stop_token_ids(const intake::TokenFacts& facts, const TextAssets& assets);

}  // namespace firstlight::adapt
