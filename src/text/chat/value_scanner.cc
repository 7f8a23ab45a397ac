// SPDX-License-Identifier: Apache-2.0
#include "text/chat/value_scanner.h"

#include "text/chat/pattern.h"

namespace firstlight::text {
namespace {

bool is_scalar_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.' || c == '_';
}

}  // namespace

// The length of the mark that opens a string here; 0: none. `wait`: more text will tell.
size_t ValueScanner::quote_at(std::string_view rest, bool over, bool& wait) const {
  switch (style_) {
    case Style::kJson:
      return rest[0] == '"' ? 1 : 0;
    case Style::kPython:
      return rest[0] == '"' || rest[0] == '\'' ? 1 : 0;
    case Style::kQuoted: {
      const Match match = match_literal(quote_, rest, over);
      wait = match == Match::kMore;
      return match == Match::kYes ? quote_.size() : 0;
    }
  }
  return 0;
}

// Inside a string; false: more text is wanted.
bool ValueScanner::step_string(std::string_view text, bool over) {
  const std::string_view rest = text.substr(at_);
  if (style_ != Style::kQuoted && rest[0] == '\\') {
    if (rest.size() < 2) return false;
    at_ += 2;
    return true;
  }
  switch (match_literal(closing_, rest, over)) {
    case Match::kNo:
      ++at_;
      return true;
    case Match::kMore:
      return false;
    case Match::kYes:
      break;
  }
  at_ += closing_.size();
  closing_.clear();
  done_ = depth_ == 0;
  return true;
}

// Outside strings; false: more text is wanted.
bool ValueScanner::step(std::string_view text, bool over) {
  const std::string_view rest = text.substr(at_);
  bool wait = false;
  const size_t mark = quote_at(rest, over, wait);
  if (wait) return false;
  if (mark > 0 && !scalar_) {
    closing_ = rest.substr(0, mark);
    at_ += mark;
    return true;
  }
  const char c = rest[0];
  const bool opens = c == '{' || c == '[' || (style_ == Style::kPython && c == '(');
  const bool closes = c == '}' || c == ']' || (style_ == Style::kPython && c == ')');
  if (depth_ > 0) {
    ++at_;
    depth_ += opens ? 1 : closes ? -1 : 0;
    done_ = depth_ == 0;
  } else if (opens && !scalar_) {
    ++at_;
    ++depth_;
  } else if (is_scalar_char(c)) {
    ++at_;
    scalar_ = true;
  } else {
    (scalar_ ? done_ : failed_) = true;
  }
  return true;
}

size_t ValueScanner::take(std::string_view fresh, bool over) {
  at_ = 0;
  while (!done_ && !failed_ && at_ < fresh.size()) {
    if (!(closing_.empty() ? step(fresh, over) : step_string(fresh, over))) break;
  }
  if (over && scalar_ && depth_ == 0) done_ = true;
  return at_;
}

}  // namespace firstlight::text
