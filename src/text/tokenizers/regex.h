// SPDX-License-Identifier: Apache-2.0
// A compiled regular expression over UTF-8 text (PCRE2 with JIT). Patterns come from tokenizer files, written for
// Oniguruma, Rust or std::regex; the constructs whose meaning differs there (\s, \w, class intersection, line anchors)
// are rewritten. Matching is bounded: a pattern that needs too many steps gives an error, never a hang.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::text {

struct Span {
  size_t begin = 0;  // bytes
  size_t end = 0;
};

class Regex {
 public:
  struct Options {
    bool line_anchors = true;  // ^ and $ match at each line, as in Oniguruma's Ruby syntax
  };

  // Errors: kInvalidData (pattern malformed, or longer than 64 KiB).
  static Result<Regex> compile(std::string_view pattern, Options options);
  static Result<Regex> compile(std::string_view pattern) { return compile(pattern, Options()); }

  // A regex that matches exactly `text`.
  static Result<Regex> literal(std::string_view text);

  // Appends all matches, left to right, not overlapping; `text` must be valid UTF-8. Empty matches are reported too.
  // Errors: kUnsupported when the step limit is reached.
  Status find_all(std::string_view text, std::vector<Span>& matches) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

// The pattern in PCRE2's dialect (exposed for its test).
std::string to_pcre2_dialect(std::string_view pattern);

}  // namespace firstlight::text
