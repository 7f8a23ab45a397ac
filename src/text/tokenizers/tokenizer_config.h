// SPDX-License-Identifier: Apache-2.0
// tokenizer_config.json: names of the special tokens, added tokens with their flags, and whether BOS and EOS are added.
#pragma once

#include <string_view>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/tokenizer_parts.h"

namespace firstlight::text {

enum class ConfigRole : uint8_t {
  kBesideTokenizerJson,  // the post-processor of tokenizer.json decides on BOS and EOS, but for classes that override
                         // it
  kOnlySource,           // add_bos_token and add_eos_token decide
};

// Completes the draft. "" is no config. Errors: kInvalidData.
Status apply_tokenizer_config(std::string_view config_json, ConfigRole role, TokenizerDraft& draft);

// The same tokenizer with what the config adds: for files that carry no names or flags of their own. Llama and Gemma
// classes add BOS unless told otherwise. Errors: as apply_tokenizer_config.
Result<Tokenizer> with_tokenizer_config(const Tokenizer& tokenizer, std::string_view config_json);

// Reads one added token (content and flags); a content that the model has already keeps the model's id. Errors:
// kInvalidData for a missing content or an id out of range; an empty content is left out.
Status append_added_token(const JsonElement& item, int64_t id, TokenizerDraft& draft);

}  // namespace firstlight::text
