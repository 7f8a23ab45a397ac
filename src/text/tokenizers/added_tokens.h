// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text before (or right after) normalization and never split: control tokens and words
// that were added to a trained vocabulary. Finds the leftmost, and there the longest, of all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/byte_trie.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/regex.h"
#include "text/tokenizers/vocabulary.h"

namespace firstlight::text {

struct AddedToken {
  std::string content;
  int32_t id = kNoToken;
  bool single_word = false;  // not when a word character is next to it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space after it along
  bool ascii_strip = false;  // lstrip and rstrip know ASCII white space only (llama.cpp)
  bool normalized = false;   // looked for in the normalized text, in its own normalized form
  bool special = false;      // skipped when decoding without special tokens
  bool control = false;      // not to be produced by text that is not trusted
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Errors: those of Normalizer::apply (on the tokens that are looked for in normalized form).
  static Result<AddedTokens> build(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  enum class Pass : uint8_t { kRaw, kNormalized };
  struct Part {
    Span span;
    int32_t id = kNoToken;  // kNoToken: text between tokens
  };

  // Which matches count: all of them, all but control tokens, or control tokens only inside `trusted` (sorted spans,
  // which do not touch). In the last case control tokens are all found in the raw pass, by their content, so that the
  // spans, which are places in the raw text, decide about every one of them.
  enum class Policy : uint8_t { kAll, kNoControl, kTrustedSpans };
  struct Rule {
    Policy policy = Policy::kAll;
    const std::vector<Span>* trusted = nullptr;
  };

  // Appends the parts of the text, in order, covering all of it.
  void split(std::string_view text, Pass pass, const Rule& rule, std::vector<Part>& parts) const;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie raw_;  // values are indexes into tokens_
  ByteTrie normalized_;
  ByteTrie raw_with_control_;  // raw_ and every control token
  ByteTrie normalized_plain_;  // normalized_ without control tokens
};

}  // namespace firstlight::text
