// SPDX-License-Identifier: Apache-2.0
// Finds where a value ends in a stream of text: a JSON value, or one written in a looser way (Python literals, strings
// between marks of a format's own). Follows strings and brackets alone; whether the inside is well-formed is for
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace firstlight::text {

class ValueScanner {
 public:
  enum class Style { kJson, kPython, kQuoted };

  // `quote`: the mark around strings (kQuoted). kPython knows '…' and "…" with backslashes, kJson "…" alone.
  explicit ValueScanner(Style style = Style::kJson, std::string quote = "") : style_(style), quote_(std::move(quote)) {}

  // Inside `depth` brackets already.
  void begin_inside(int64_t depth) { depth_ = depth; }

  // How many bytes at the front of `fresh`, which follows on what was taken before, belong to the value (the first call
  // begins with its first character, no white space). What it leaves, it wants to see again. With `over` nothing will
  // come.
  size_t take(std::string_view fresh, bool over = false);

  bool done() const { return done_; }
  bool failed() const { return failed_; }  // not the beginning of a value

 private:
  size_t quote_at(std::string_view rest, bool over, bool& wait) const;
  bool step_string(std::string_view text, bool over);
  bool step(std::string_view text, bool over);

  Style style_;
  std::string quote_;
  size_t at_ = 0;
  int64_t depth_ = 0;
  std::string closing_;  // the end of the string we are in; "" outside
  bool scalar_ = false;
  bool done_ = false;
  bool failed_ = false;
};

}  // namespace firstlight::text
