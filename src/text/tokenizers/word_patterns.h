// SPDX-License-Identifier: Apache-2.0
// Word patterns that vocabularies name instead of spelling them out: the pre-tokenizer names of GGUF files and the
// encodings of tiktoken. Facts collected from the released tokenizers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/pre_tokenizer.h"

namespace firstlight::text {

// How a GGUF byte-pair vocabulary ("gpt2") with this pre-tokenizer name is used.
struct GgufWordPattern {
  std::vector<std::string> patterns;  // applied one after the other; matches are words, and so is what lies between
  bool ignore_merges = false;
  bool add_bos = false;    // where the file does not say
  bool byte_level = true;  // false: pieces are UTF-8 with spaces as U+2581, bytes as <0xAB>
};

// Errors: kUnsupported naming an unknown pre-tokenizer.
Result<GgufWordPattern> gguf_word_pattern(std::string_view pre);

// Split steps for a list of patterns.
Result<std::vector<PreTokenizerStep>> split_steps(const std::vector<std::string>& patterns, bool line_anchors);

}  // namespace firstlight::text
