// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace firstlight::text::jinja {

Status error_at(int line, const std::string& message) {
  return invalid_data("line " + std::to_string(line) + ": " + message);
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

int count_newlines(std::string_view text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

// Line ends become \n, and one of them at the very end is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      out += '\n';
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

size_t skip_spaces(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    const CodePoint c = decode_utf8(text, pos);
    if (!is_space(c.value)) break;
    pos += c.length;
  }
  return pos;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!is_space(decode_utf8(text, start).value)) break;
    text = text.substr(0, start);
  }
  return text;
}

// Non-ASCII code points spelled as escapes, the first half of Python's way to read a string literal.
std::string spell_ascii(std::string_view body) {
  std::string out;
  for (size_t pos = 0; pos < body.size();) {
    const CodePoint c = decode_utf8(body, pos);
    if (c.value < 0x80) {
      out += body[pos];
    } else {
      std::array<char, 12> buffer{};
      const char* format = c.value < 0x100 ? "\\x%02x" : c.value < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c.value));
      out += buffer.data();
    }
    pos += c.length;
  }
  return out;
}

constexpr std::string_view kSimpleEscapes = "\\'\"abfnrtv";
constexpr std::string_view kSimpleValues = "\\'\"\a\b\f\n\r\t\v";

// The escapes of a Python literal; `text` is ASCII.
Result<std::string> resolve_escapes(std::string_view text, int line) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return error_at(line, "\\ at end of string");
    const char c = text[i];
    if (c == '\n') continue;
    if (const size_t simple = kSimpleEscapes.find(c); simple != std::string_view::npos) {
      out += kSimpleValues[simple];
      continue;
    }
    const bool octal = c >= '0' && c <= '7';
    const size_t wanted = octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') return error_at(line, "unsupported string escape \\N{…}");
    if (wanted == 0) {
      out += '\\';
      out += c;
      continue;
    }
    const int base = octal ? 8 : 16;
    size_t pos = octal ? i : i + 1;
    const size_t start = pos;
    uint64_t value = 0;
    while (pos < text.size() && pos - start < wanted && digit_value(text[pos]) < base) {
      value = value * static_cast<uint64_t>(base) + static_cast<uint64_t>(digit_value(text[pos++]));
    }
    if (!octal && pos - start < wanted) return error_at(line, std::string("truncated \\") + c + " escape in a string");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      return error_at(line, std::string("\\") + c + " escape in a string is no Unicode scalar value");
    }
    append_utf8(out, static_cast<char32_t>(value));
    i = pos - 1;
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (pos_ < source_.size()) FL_TRY(root());
    push(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view rest(size_t pos) const { return std::string_view(source_).substr(std::min(pos, source_.size())); }
  bool at(size_t pos, std::string_view what) const { return rest(pos).starts_with(what); }

  Token& push(TokenKind kind, std::string text = {}) {
    tokens_.push_back({kind, line_, std::move(text), 0, 0});
    return tokens_.back();
  }

  // The end of "{%[-+]? raw -?%}" at `pos`, 0 if something else stands there. White space after "-%}" belongs to it.
  size_t match_raw(size_t pos, std::string_view word, bool is_end) const {
    if (!at(pos, "{%")) return 0;
    pos += 2;
    if (at(pos, "-") || at(pos, "+")) ++pos;
    pos = skip_spaces(source_, pos);
    if (!at(pos, word)) return 0;
    pos = skip_spaces(source_, pos + word.size());
    if (at(pos, "-%}")) return skip_spaces(source_, pos + 3);
    if (is_end && at(pos, "+%}")) return pos + 3;
    if (!at(pos, "%}")) return 0;
    return pos + 2 + (is_end && at(pos + 2, "\n") ? 1 : 0);
  }

  // Emits the data before a tag whose control sign is at `sign_pos`, with stripping applied.
  void data_before(size_t tag, size_t sign_pos, bool is_variable) {
    const std::string_view whole = rest(pos_).substr(0, tag - pos_);
    std::string_view text = whole;
    if (at(sign_pos, "-")) {
      text = strip_right(text);
    } else if (!at(sign_pos, "+") && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line_pos = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_pos > 0 || line_starting_) && skip_spaces(text, line_pos) == text.size())
        text = text.substr(0, line_pos);
    }
    if (!text.empty()) push(TokenKind::kData, std::string(text));
    line_ += count_newlines(whole);
  }

  void finish_match(size_t end) {
    if (end > 0) line_starting_ = source_[end - 1] == '\n';
    pos_ = end;
  }

  Status root() {
    size_t tag = source_.find('{', pos_);
    while (tag != std::string::npos && !at(tag, "{%") && !at(tag, "{{") && !at(tag, "{#"))
      tag = source_.find('{', tag + 1);
    if (tag == std::string::npos) {
      push(TokenKind::kData, std::string(rest(pos_)));
      pos_ = source_.size();
      return ok_status();
    }
    const char type = source_[tag + 1];
    data_before(tag, tag + 2, type == '{');
    if (const size_t end = match_raw(tag, "raw", false)) return raw(tag, end);
    size_t begin = tag + 2;
    if (at(begin, "-") || at(begin, "+")) ++begin;
    finish_match(begin);
    if (type == '#') return comment();
    push(type == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin);
    return code(type == '{');
  }

  Status raw(size_t tag, size_t body) {
    line_ += count_newlines(rest(tag).substr(0, body - tag));
    const int start_line = line_;
    finish_match(body);
    for (size_t pos = source_.find("{%", body); pos != std::string::npos; pos = source_.find("{%", pos + 1)) {
      const size_t end = match_raw(pos, "endraw", true);
      if (end == 0) continue;
      data_before(pos, pos + 2, false);
      line_ += count_newlines(rest(pos).substr(0, end - pos));
      finish_match(end);
      return ok_status();
    }
    return error_at(start_line, "missing end of raw directive");
  }

  Status comment() {
    const size_t close = source_.find("#}", pos_);
    if (close == std::string::npos) return error_at(line_, "missing end of comment tag");
    size_t end = close + 2;
    const char sign = close > pos_ ? source_[close - 1] : '\0';
    if (sign == '-') {
      end = skip_spaces(source_, end);
    } else if (sign != '+' && at(end, "\n")) {
      ++end;
    }
    line_ += count_newlines(rest(pos_).substr(0, end - pos_));
    finish_match(end);
    return ok_status();
  }

  // The end of the tag at pos_, 0 if it is not there.
  size_t match_tag_end(bool is_variable) const {
    const std::string_view close = is_variable ? "}}" : "%}";
    if (at(pos_, "-") && at(pos_ + 1, close)) return skip_spaces(source_, pos_ + 3);
    if (at(pos_, close)) return pos_ + 2 + (!is_variable && at(pos_ + 2, "\n") ? 1 : 0);
    if (!is_variable && at(pos_, "+%}")) return pos_ + 3;
    return 0;
  }

  Status code(bool is_variable) {
    brackets_.clear();
    while (pos_ < source_.size()) {
      if (const size_t end = brackets_.empty() ? match_tag_end(is_variable) : 0) {
        push(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd);
        line_ += count_newlines(rest(pos_).substr(0, end - pos_));
        finish_match(end);
        return ok_status();
      }
      FL_TRY(code_token());
    }
    return ok_status();  // the parser says what is missing
  }

  Status code_token() {
    if (const size_t end = skip_spaces(source_, pos_); end != pos_) {
      line_ += count_newlines(rest(pos_).substr(0, end - pos_));
      pos_ = end;
      return ok_status();
    }
    const char c = source_[pos_];
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string(c);
    if (const size_t end = match_name(); end != pos_) {
      push(TokenKind::kName, source_.substr(pos_, end - pos_));
      pos_ = end;
      return ok_status();
    }
    return op();
  }

  size_t match_name() const {
    size_t pos = pos_;
    while (pos < source_.size()) {
      const CodePoint c = decode_utf8(source_, pos);
      const bool in_name = c.value == '_' || (c.value < 0x80 ? (std::isalnum(static_cast<int>(c.value)) != 0)
                                                             : (c.valid && is_word(c.value)));
      if (!in_name) break;
      pos += c.length;
    }
    return pos;
  }

  // The end of digits with single underscores between them, `pos` if there are none.
  size_t match_digits(size_t pos, int base) const {
    const auto is_base_digit = [&](size_t p) { return p < source_.size() && digit_value(source_[p]) < base; };
    if (!is_base_digit(pos)) return pos;
    while (is_base_digit(pos) || (at(pos, "_") && is_base_digit(pos + 1))) ++pos;
    return pos;
  }

  size_t match_float() const {
    if (pos_ > 0 && source_[pos_ - 1] == '.') return pos_;
    size_t end = match_digits(pos_, 10);
    bool is_float = false;
    if (at(end, ".")) {
      const size_t fraction = match_digits(end + 1, 10);
      if (fraction != end + 1) {
        end = fraction;
        is_float = true;
      }
    }
    if (at(end, "e") || at(end, "E")) {
      const size_t sign = end + 1 + ((at(end + 1, "+") || at(end + 1, "-")) ? 1 : 0);
      const size_t exponent = match_digits(sign, 10);
      if (exponent != sign) {
        end = exponent;
        is_float = true;
      }
    }
    return is_float ? end : pos_;
  }

  Status number() {
    if (const size_t end = match_float(); end != pos_) {
      std::string digits = source_.substr(pos_, end - pos_);
      std::erase(digits, '_');
      push(TokenKind::kFloat).number = std::strtod(digits.c_str(), nullptr);
      pos_ = end;
      return ok_status();
    }
    int base = 10;
    size_t start = pos_;
    if (source_[pos_] == '0' && pos_ + 1 < source_.size()) {
      const char mark = static_cast<char>(source_[pos_ + 1] | 0x20);
      const int prefixed = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      const size_t digits = pos_ + 2 + (at(pos_ + 2, "_") ? 1 : 0);
      if (prefixed != 10 && match_digits(digits, prefixed) != digits) {
        base = prefixed;
        start = digits;
      }
    }
    size_t end = match_digits(start, base);
    if (base == 10 && source_[start] == '0') {  // a zero may only be followed by zeros
      end = start + 1;
      while (at(end, "0") || at(end, "_0")) ++end;
    }
    Int value = 0;
    for (size_t i = start; i < end; ++i) {
      if (source_[i] == '_') continue;
      if (__builtin_mul_overflow(value, Int{base}, &value) ||
          __builtin_add_overflow(value, Int{digit_value(source_[i])}, &value)) {
        return error_at(line_, "integer literal too large");
      }
    }
    push(TokenKind::kInteger, source_.substr(pos_, end - pos_)).integer = value;
    pos_ = end;
    return ok_status();
  }

  Status string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      return error_at(line_, std::string("unexpected char '") + quote + "': string without end");
    const std::string_view body = rest(pos_ + 1).substr(0, end - pos_ - 1);
    push(TokenKind::kString, FL_TRY(resolve_escapes(spell_ascii(body), line_)));
    line_ += count_newlines(body);
    pos_ = end + 1;
    return ok_status();
  }

  Status op() {
    static constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view candidate : kOperators) {
      if (!at(pos_, candidate)) continue;
      FL_TRY(balance(candidate[0]));
      push(TokenKind::kOperator, std::string(candidate));
      pos_ += candidate.size();
      return ok_status();
    }
    const CodePoint c = decode_utf8(source_, pos_);
    return error_at(line_, "unexpected char '" + source_.substr(pos_, c.length) + "'");
  }

  Status balance(char c) {
    static constexpr std::string_view kOpen = "([{";
    static constexpr std::string_view kClose = ")]}";
    if (const size_t open = kOpen.find(c); open != std::string_view::npos) brackets_ += kClose[open];
    if (kClose.find(c) == std::string_view::npos) return ok_status();
    if (brackets_.empty()) return error_at(line_, std::string("unexpected '") + c + "'");
    if (brackets_.back() != c) {
      return error_at(line_, std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
    }
    brackets_.pop_back();
    return ok_status();
  }

  std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // what closes the open ones
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (!is_valid_utf8(source)) return invalid_data("the template is not valid UTF-8");
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace firstlight::text::jinja
