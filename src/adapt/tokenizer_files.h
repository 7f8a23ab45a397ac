// SPDX-License-Identifier: Apache-2.0
// A GGUF's vocabulary as the tokenizer files of a released checkpoint: tokenizer.json and tokenizer_config.json.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "formats/gguf.h"
#include "text/gguf_vocabulary.h"

namespace firstlight::adapt {

// tokenizer.json of a byte-level or SentencePiece byte-pair vocabulary. The file is read back and compared with the
// vocabulary itself on texts of many kinds before it is given out. Errors: kUnsupported for other kinds of vocabulary,
// and for one that the format can not express (the first text that differs is named).
Result<std::string> tokenizer_json_of(const text::GgufVocabulary& vocabulary);

// tokenizer_config.json: special tokens, whether BOS and EOS are added, the chat templates. `max_positions` in tokens.
// Errors: those of the vocabulary's loader.
Result<std::string> tokenizer_config_of(const formats::GgufFile& file, const text::GgufVocabulary& vocabulary,
                                        std::optional<int64_t> max_positions);

}  // namespace firstlight::adapt
