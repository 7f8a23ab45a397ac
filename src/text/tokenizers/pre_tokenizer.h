// SPDX-License-Identifier: Apache-2.0
// Cuts normalized text into words, the units no token crosses: a list of steps, each over the words the one before
// left. Covers the pre-tokenizers of tokenizer.json; GGUF and tiktoken patterns are lists of Split steps.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/regex.h"

namespace firstlight::text {

// Words view `storage` or the text the list began with; the text must outlive the list.
struct WordList {
  struct Word {
    std::string_view text;
    bool at_start = false;  // nothing of the input stands before it
  };
  std::vector<Word> words;
  std::deque<std::string> storage;
};

enum class SplitBehavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

namespace pretok {

struct ByteLevel {
  bool add_prefix_space = false;
  Regex pattern;
  bool use_regex = true;
};
enum class Prefix : uint8_t { kFirst, kNever, kAlways };
struct Metaspace {
  std::string replacement;
  Prefix prefix = Prefix::kAlways;
  bool split = true;
};
struct Split {
  Regex pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
};

// Splits on characters of a class.
enum class CharClass : uint8_t { kWhiteSpace, kPunctuation, kNumeric };
struct CharSplit {
  CharClass kind;
  SplitBehavior behavior;
};

struct Whitespace {};  // runs of \w, runs of neither \w nor \s
struct FixedLength {
  size_t num_chars = 5;
};

}  // namespace pretok

using PreTokenizerStep = std::variant<pretok::ByteLevel, pretok::Metaspace, pretok::Split, pretok::CharSplit,
                                      pretok::Whitespace, pretok::FixedLength>;

class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // Errors: those of Regex::find_all.
  Status apply(WordList& list) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

// GPT-2's word pattern, which ByteLevel uses.
std::string_view byte_level_pattern();

// Matches runs of one script (Hiragana, Katakana and Han count as one).
std::string unicode_scripts_pattern();

}  // namespace firstlight::text
