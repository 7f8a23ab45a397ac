// SPDX-License-Identifier: Apache-2.0
// The parser of attribute lists: the inverse of attributes_to_string.
#include <charconv>
#include <limits>

#include "ops/attributes.h"

namespace firstlight::ops {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : whole_(text), text_(text) {}

  Result<Attributes> parse() {
    Attributes attributes;
    if (!take('{')) return attributes;
    if (take('}')) return attributes;
    do {
      const std::string name(FL_TRY(identifier()));
      if (attributes.has(name)) return wanted("attribute '" + name + "' only once");
      if (!take('=')) return wanted("'='");
      attributes.set(name, FL_TRY(value()));
    } while (take(','));
    if (!take('}')) return wanted("',' or '}'");
    return attributes;
  }

  std::string_view rest() const { return text_; }
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t')) text_.remove_prefix(1);
  }
  Status wanted(const std::string& what) const {
    return invalid_data("attributes: at offset " + std::to_string(whole_.size() - text_.size()) + ": found " +
                        (text_.empty() ? "the end" : "'" + std::string(text_.substr(0, 12)) + "'") + ", wanted " +
                        what);
  }

 private:
  bool take(char c) {
    skip_space();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool take_word(std::string_view word) {
    skip_space();
    if (text_.substr(0, word.size()) != word) return false;
    if (text_.size() > word.size() && is_name(text_[word.size()])) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  static bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

  Result<std::string_view> identifier() {
    skip_space();
    size_t size = 0;
    while (size < text_.size() && is_name(text_[size])) ++size;
    if (size == 0) return wanted("a name");
    const std::string_view name = text_.substr(0, size);
    text_.remove_prefix(size);
    return name;
  }

  Result<Attribute> value() {
    skip_space();
    if (take_word("true")) return Attribute(true);
    if (take_word("false")) return Attribute(false);
    if (!text_.empty() && text_[0] == '"') return Attribute(FL_TRY(string()));
    if (take_word("floats")) return empty_list(Attribute(std::vector<double>{}));
    if (take_word("expressions")) return empty_list(Attribute(std::vector<Expression>{}));
    if (take('[')) return list();
    if (starts_number()) return number();
    return Attribute(FL_TRY(expression()));
  }

  Result<Attribute> empty_list(Attribute empty) {
    if (!take('[') || !take(']')) return wanted("'[]'");
    return empty;
  }

  bool starts_number() {
    skip_space();
    if (text_.empty()) return false;
    const char c = text_[0];
    return (c >= '0' && c <= '9') || c == '-' || c == '.' || text_.substr(0, 3) == "inf" || text_.substr(0, 3) == "nan";
  }

  // A number is an int64_t when it is digits alone, else a double.
  Result<Attribute> number() {
    size_t size = text_[0] == '-' ? 1 : 0;
    while (size < text_.size() && text_[size] >= '0' && text_[size] <= '9') ++size;
    const char next = size < text_.size() ? text_[size] : '\0';
    const bool is_int = next != '.' && next != 'e' && next != 'i' && next != 'n';
    if (is_int) {
      int64_t value = 0;
      const auto end = std::from_chars(text_.data(), text_.data() + size, value);
      if (end.ec != std::errc() || end.ptr != text_.data() + size) return wanted("a number in the range of int64");
      text_.remove_prefix(size);
      return Attribute(value);
    }
    double value = 0;
    const auto end = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (end.ec != std::errc()) return wanted("a number in the range of float64");
    text_.remove_prefix(static_cast<size_t>(end.ptr - text_.data()));
    return Attribute(value != value ? std::numeric_limits<double>::quiet_NaN() : value);
  }

  Result<Expression> expression() {
    auto result = Expression::parse_prefix(text_);
    if (!result.ok()) return wanted("a value (" + result.status().message() + ")");
    return result;
  }

  Result<Attribute> list() {
    if (take(']')) return Attribute(std::vector<int64_t>{});
    std::vector<int64_t> ints;
    std::vector<double> floats;
    std::vector<Expression> expressions;
    do {
      if (!starts_number()) {
        if (!ints.empty() || !floats.empty()) return wanted("a further number");
        expressions.push_back(FL_TRY(expression()));
        continue;
      }
      if (!expressions.empty()) return wanted("a further expression");
      const Attribute item = FL_TRY(number());
      if (const auto* as_int = std::get_if<int64_t>(&item)) {
        if (!floats.empty()) return wanted("only floats (with '.', 'e', inf or nan) after floats");
        ints.push_back(*as_int);
      } else {
        if (!ints.empty()) return wanted("only ints after ints");
        floats.push_back(std::get<double>(item));
      }
    } while (take(','));
    if (!take(']')) return wanted("',' or ']'");
    if (!expressions.empty()) return Attribute(std::move(expressions));
    if (!floats.empty()) return Attribute(std::move(floats));
    return Attribute(std::move(ints));
  }

  static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  }

  Result<std::string> string() {
    std::string out;
    text_.remove_prefix(1);
    while (!text_.empty() && text_[0] != '"') {
      size_t size = 1;
      if (text_[0] != '\\') {
        out += text_[0];
      } else if (text_.size() >= 2 && (text_[1] == '"' || text_[1] == '\\')) {
        out += text_[1];
        size = 2;
      } else if (text_.size() >= 4 && text_[1] == 'x' && hex_digit(text_[2]) >= 0 && hex_digit(text_[3]) >= 0) {
        out += static_cast<char>(hex_digit(text_[2]) * 16 + hex_digit(text_[3]));
        size = 4;
      } else {
        return wanted("one of \\\", \\\\ and \\xNN");
      }
      text_.remove_prefix(size);
    }
    if (text_.empty()) return wanted("the closing '\"'");
    text_.remove_prefix(1);
    return out;
  }

  std::string_view whole_;
  std::string_view text_;
};

}  // namespace

Result<Attributes> parse_attributes_prefix(std::string_view& text) {
  Parser parser(text);
  Attributes attributes = FL_TRY(parser.parse());
  text = parser.rest();
  return attributes;
}

Result<Attributes> parse_attributes(std::string_view text) {
  Parser parser(text);
  Attributes attributes = FL_TRY(parser.parse());
  parser.skip_space();
  if (!parser.rest().empty()) return parser.wanted("the end");
  return attributes;
}

}  // namespace firstlight::ops
