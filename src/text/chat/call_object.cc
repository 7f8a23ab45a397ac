// SPDX-License-Identifier: Apache-2.0
#include "text/chat/call_object.h"

#include <algorithm>

#include "base/json.h"
#include "text/chat/value_scanner.h"

namespace firstlight::text {
namespace {

bool is_one_of(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

class ObjectReader {
 public:
  ObjectReader(std::string_view text, bool over) : text_(text), over_(over) {}

  size_t at() const { return at_; }
  Match state() const { return state_; }

  // The next character but white space; '\0' and state() kMore at the end of the text.
  char peek() {
    at_ = skip_blanks(text_, at_);
    if (at_ < text_.size()) return text_[at_];
    state_ = over_ ? Match::kNo : Match::kMore;
    return '\0';
  }
  bool take(char c) {
    const char next = peek();
    if (next == c) {
      ++at_;
      return true;
    }
    if (state_ == Match::kYes) state_ = Match::kNo;
    return false;
  }
  // The text of the next value.
  std::string value() {
    peek();
    if (state_ != Match::kYes) return "";
    ValueScanner scanner;
    const size_t size = scanner.take(text_.substr(at_), over_);
    if (!scanner.done()) {
      state_ = scanner.failed() || over_ ? Match::kNo : Match::kMore;
      return "";
    }
    at_ += size;
    return std::string(text_.substr(at_ - size, size));
  }
  std::string string() {
    const std::string text = value();
    if (state_ != Match::kYes) return "";
    const auto parsed = parse_json(text);
    if (parsed.ok() && parsed->is_string()) return parsed->get<std::string>();
    state_ = Match::kNo;
    return "";
  }

 private:
  std::string_view text_;
  bool over_;
  size_t at_ = 0;
  Match state_ = Match::kYes;
};

}  // namespace

std::string decode_arguments(std::string_view written) {
  if (written == "null") return "{}";
  if (!written.starts_with('"')) return std::string(written);
  const auto parsed = parse_json(written);
  if (!parsed.ok() || !parsed->is_string()) return std::string(written);
  const std::string_view text = trim_blanks(parsed->get_ref<const std::string&>());
  return text.empty() ? "{}" : std::string(text);
}

std::string decode_cut_arguments(std::string_view written) {
  // An escape has 12 bytes at most (two halves of a character).
  for (size_t dropped = 0; dropped < 12 && dropped < written.size(); ++dropped) {
    const auto parsed = parse_json(std::string(written.substr(0, written.size() - dropped)) + "\"");
    if (!parsed.ok() || !parsed->is_string()) continue;
    const auto& text = parsed->get_ref<const std::string&>();
    return std::string(trim_blanks(text));
  }
  return "";
}

Match match_call_object(const CallSyntax& syntax, std::string_view text, bool over, CallObject& call) {
  ObjectReader reader(text, over);
  std::string arguments;
  reader.take('{');
  while (reader.state() == Match::kYes) {
    const std::string key = reader.string();
    reader.take(':');
    const char next = reader.peek();
    if (reader.state() != Match::kYes) break;
    if (syntax.keyed || (is_one_of(syntax.argument_keys, key) && !call.name.empty())) {
      if (syntax.keyed) call.name = key;
      call.length = reader.at();
      return Match::kYes;
    }
    if (key == "function" && next == '{') {  // OpenAI's own nesting
      reader.take('{');
      ++call.levels;
      continue;
    }
    if (is_one_of(syntax.name_keys, key)) {
      call.name = reader.string();
    } else if (is_one_of(syntax.argument_keys, key)) {
      arguments = reader.value();
    } else {
      reader.value();
    }
    if (reader.peek() == ',') {
      reader.take(',');
      continue;
    }
    while (call.levels > 0 && reader.take('}')) --call.levels;
    if (reader.state() != Match::kYes) break;
    if (call.name.empty()) return Match::kNo;
    call.is_whole = true;
    call.arguments = arguments.empty() ? "{}" : decode_arguments(arguments);
    call.length = reader.at();
    return Match::kYes;
  }
  return reader.state();
}

Match match_member(std::string_view text, bool over, size_t& length) {
  ObjectReader reader(text, over);
  if (reader.take(',')) reader.string();
  if (reader.state() == Match::kYes) reader.take(':');
  if (reader.state() == Match::kYes) reader.value();
  length = reader.at();
  return reader.state();
}

}  // namespace firstlight::text
