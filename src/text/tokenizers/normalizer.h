// SPDX-License-Identifier: Apache-2.0
// What happens to text before it is cut into words: a list of steps, each from valid UTF-8 to valid UTF-8. Covers the
// normalizers of tokenizer.json and the one of SentencePiece files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "text/tokenizers/byte_trie.h"
#include "text/tokenizers/charsmap.h"
#include "text/tokenizers/regex.h"
#include "text/unicode.h"

namespace firstlight::text {

namespace norm {

struct UnicodeForm {
  NormalForm form;
};
struct Lowercase {};
struct StripAccents {};  // drops every mark (M*)
struct Strip {
  bool left = true;
  bool right = true;
};
struct Prepend {
  std::string text;
};
struct Replace {
  Regex pattern;
  std::string content;
};
struct ReplaceText {
  std::string from;
  std::string to;
};
struct Precompiled {
  std::shared_ptr<const Charsmap> map;
};
struct Bert {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};
struct Nmt {};
struct ByteLevel {};

// The normalizer of SentencePiece: character map by longest match, white space folded and escaped as U+2581. Strings of
// `user_defined` pass through untouched.
struct SentencePiece {
  std::shared_ptr<const Charsmap> map;           // may be null
  std::shared_ptr<const ByteTrie> user_defined;  // may be null
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
};

}  // namespace norm

using NormalizerStep =
    std::variant<norm::UnicodeForm, norm::Lowercase, norm::StripAccents, norm::Strip, norm::Prepend, norm::Replace,
                 norm::ReplaceText, norm::Precompiled, norm::Bert, norm::Nmt, norm::ByteLevel, norm::SentencePiece>;

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }

  // Changes `text` in place. `front_removed` (may be null) is set when the first character was taken away, so that what
  // comes first now does not stand at the start of the input. Errors: those of Regex::find_all.
  Status apply(std::string& text, bool* front_removed = nullptr) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace firstlight::text
