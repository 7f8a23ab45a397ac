// SPDX-License-Identifier: Apache-2.0
// The precompiled character map of SentencePiece: a double-array trie of strings and what each is replaced by. Comes
// base64 coded in tokenizer.json ("Precompiled"), raw in .model files and as an array in GGUF. Every index is checked
// when used.
//
//   | u32 bytes of the trie | u32 units of the trie ... | replacement strings, each ended by a zero byte ... |
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::text {

class Charsmap {
 public:
  // Errors: kInvalidData when the sizes do not fit together or the replacements are not UTF-8.
  static Result<Charsmap> parse(std::string_view blob);

  struct Match {
    size_t length = 0;  // bytes matched; 0: nothing
    std::string_view replacement;
  };
  Match longest(std::string_view text) const;   // the longest key that begins the text
  Match shortest(std::string_view text) const;  // the shortest one

  // The text as the tokenizers library normalizes it: grapheme by grapheme when under 6 bytes, else character by
  // character, each replaced by what its shortest matching prefix maps to.
  std::string apply_by_grapheme(std::string_view text) const;

 private:
  template <typename Visit>
  void for_each_prefix(std::string_view text, Visit visit) const;
  std::string_view replacement_at(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace firstlight::text
