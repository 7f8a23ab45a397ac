// SPDX-License-Identifier: Apache-2.0
// Tokens to judge a model's numbers on, where the user brings none: a text of many kinds, kept in the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adapt/text_assets.h"

namespace firstlight::gates {

// Narration, explanation, talk, code, sums and tables, some of it in other languages; about 700 tokens.
const char* calibration_text();

struct Calibration {
  std::vector<int32_t> tokens;  // one sequence; BOS in front where the tokenizer has one to add
  std::string origin;           // "the text in the program", "FILE", "ids from all over the vocabulary"
};

// The first `count` tokens of `text` (none: of the text above) by the model's tokenizer; where it has none and no text
// is given, ids from all over the vocabulary, which look like no language. Errors: the tokenizer's; kInvalidArgument
// for fewer than two tokens.
Result<Calibration> calibration_tokens(const adapt::TextAssets& assets, const std::optional<std::string>& text,
                                       const std::string& name, int64_t vocab_size, int64_t count);

}  // namespace firstlight::gates
