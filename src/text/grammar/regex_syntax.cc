// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/regex_syntax.h"

#include <array>
#include <optional>
#include <utility>

#include "text/unicode.h"

namespace firstlight::text::grammar {
namespace {

constexpr int kMostNested = 100;
constexpr size_t kMostPatternBytes = 64 << 10;
constexpr char kHexDigits[] = "0123456789abcdef";

struct ShortEscape {
  char32_t character;
  char letter;
};
constexpr std::array kJsonEscapes = {ShortEscape{'"', '"'},  ShortEscape{'\\', '\\'}, ShortEscape{'\b', 'b'},
                                     ShortEscape{'\f', 'f'}, ShortEscape{'\n', 'n'},  ShortEscape{'\r', 'r'},
                                     ShortEscape{'\t', 't'}};
constexpr std::array kEscapedRanges = {CharRange{0, 0x1F}, CharRange{'"', '"'}, CharRange{'\\', '\\'}};

std::string json_spelling(char32_t c) {
  for (const ShortEscape& escape : kJsonEscapes) {
    if (escape.character == c) return {'\\', escape.letter};
  }
  std::string out;
  if (c < 0x20) return {'\\', 'u', '0', '0', kHexDigits[c >> 4], kHexDigits[c & 15]};
  append_utf8(out, c);
  return out;
}

const std::vector<CharRange> kDigits = {{'0', '9'}};
const std::vector<CharRange> kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<CharRange> kSpace = {{'\t', '\r'}, {' ', ' '}};

class RegexParser {
 public:
  RegexParser(Grammar& grammar, std::string_view pattern, RegexOptions options)
      : grammar_(grammar), pattern_(pattern), options_(options) {}

  Result<ExprId> parse() {
    const ExprId whole = FL_TRY(alternatives(0));
    if (!at_end()) return fault("')' without '('");
    return whole;
  }

 private:
  // A piece that a repeat can follow.
  struct Atom {
    std::optional<char32_t> character;  // else `expr`
    ExprId expr = 0;
  };

  bool at_end() const { return pos_ >= pattern_.size(); }
  bool looks_at(std::string_view text) const { return pattern_.substr(pos_).starts_with(text); }
  bool take(std::string_view text) {
    if (!looks_at(text)) return false;
    pos_ += text.size();
    return true;
  }
  Status fault(const std::string& what) const {
    return invalid_argument("regular expression: " + what + " at byte " + std::to_string(pos_));
  }
  Status refuse(const std::string& what) const {
    return unsupported("regular expression: " + what + " at byte " + std::to_string(pos_) + " is not supported");
  }
  char32_t next_character() {
    const CodePoint point = decode_utf8(pattern_, pos_);
    pos_ += point.length;
    return point.value;
  }
  ExprId any_text() { return grammar_.repeat(chars({{0, kLastCodePoint}}), 0, kUnbounded); }
  ExprId chars(std::vector<CharRange> ranges) {
    if (options_.without != 0) ranges = intersect(ranges, complement({{options_.without, options_.without}}));
    return spelled_chars(grammar_, std::move(ranges), options_.alphabet);
  }
  ExprId literal(const std::string& text) {
    for (size_t pos = 0; options_.without != 0 && pos < text.size();) {
      const CodePoint point = decode_utf8(text, pos);
      if (point.value == options_.without) return grammar_.nothing();
      pos += point.length;
    }
    return grammar_.text(options_.alphabet == Alphabet::kText ? text : json_spelled(text));
  }

  Result<ExprId> alternatives(int depth) {
    if (depth > kMostNested) return fault("more than " + std::to_string(kMostNested) + " groups inside one another");
    std::vector<ExprId> parts;
    do {
      parts.push_back(FL_TRY(sequence(depth)));
    } while (take("|"));
    return grammar_.choice(std::move(parts));
  }

  Result<ExprId> sequence(int depth) {
    std::vector<ExprId> parts;
    std::string text;  // characters that no repeat follows
    const auto flush = [&] {
      if (text.empty()) return;
      parts.push_back(literal(text));
      text.clear();
    };
    const bool holds_start = depth == 0 && take("^");
    bool holds_end = false;
    while (!at_end() && !looks_at("|") && !looks_at(")")) {
      if (looks_at("$") && depth == 0 && (pos_ + 1 == pattern_.size() || pattern_[pos_ + 1] == '|')) {
        ++pos_;
        holds_end = true;
        break;
      }
      const Atom atom = FL_TRY(parse_atom(depth));
      const auto repeat = FL_TRY(parse_repeat());
      if (atom.character && !repeat) {
        append_utf8(text, *atom.character);
        continue;
      }
      flush();
      const ExprId part = atom.character ? chars({{*atom.character, *atom.character}}) : atom.expr;
      parts.push_back(repeat ? grammar_.repeat(part, repeat->first, repeat->second) : part);
    }
    flush();
    if (options_.search && depth == 0) {
      if (!holds_start) parts.insert(parts.begin(), any_text());
      if (!holds_end) parts.push_back(any_text());
    }
    return grammar_.sequence(std::move(parts));
  }

  Result<Atom> parse_atom(int depth) {
    const char c = pattern_[pos_];
    switch (c) {
      case '(':
        return parse_group(depth);
      case '[':
        ++pos_;
        return parse_class();
      case '.':
        ++pos_;
        return set(complement({{'\n', '\n'}}));
      case '\\':
        return parse_escape();
      case '^':
      case '$':
        return refuse(std::string("'") + c + "' elsewhere than at an end of the whole expression");
      case '*':
      case '+':
      case '?':
        return fault(std::string("'") + c + "' with nothing to repeat");
      default:
        return Atom{next_character()};
    }
  }

  Atom set(std::vector<CharRange> ranges) { return {std::nullopt, chars(std::move(ranges))}; }

  Result<Atom> parse_group(int depth) {
    for (const char* ahead : {"(?=", "(?!", "(?<=", "(?<!"}) {
      if (looks_at(ahead)) return refuse("look-around");
    }
    if (looks_at("(?P=")) return refuse("a back reference");
    if (looks_at("(?<") || looks_at("(?P<")) {
      pos_ = pattern_.find('>', pos_);
      if (pos_ == std::string_view::npos) return invalid_argument("regular expression: a group's name without '>'");
      ++pos_;
    } else if (!take("(?:")) {
      if (looks_at("(?") || looks_at("(*")) return refuse("'" + std::string(pattern_.substr(pos_, 3)) + "'");
      ++pos_;
    }
    const ExprId inner = FL_TRY(alternatives(depth + 1));
    if (!take(")")) return fault("'(' without ')'");
    return Atom{std::nullopt, inner};
  }

  // {min, max}, where a repeat stands here.
  Result<std::optional<std::pair<int32_t, int32_t>>> parse_repeat() {
    std::optional<std::pair<int32_t, int32_t>> found;
    if (take("*")) {
      found = {0, kUnbounded};
    } else if (take("+")) {
      found = {1, kUnbounded};
    } else if (take("?")) {
      found = {0, 1};
    } else if (looks_at("{")) {
      const size_t begin = pos_++;
      const auto min = take_number();
      const bool comma = take(",");
      const auto max = take_number();
      if (!min && comma && max && looks_at("}")) return refuse("a repeat without a lower bound");
      if (!min || !take("}")) {
        pos_ = begin;  // no repeat: an ordinary brace, as usual
        return std::optional<std::pair<int32_t, int32_t>>();
      }
      if (max && *max < *min) return fault("a repeat whose upper bound is below the lower one");
      found = {*min, max ? *max : comma ? kUnbounded : *min};
    }
    if (!found) return found;
    if (looks_at("+")) return refuse("a possessive repeat");
    take("?");
    if (!at_end() && std::string_view("*+?").find(pattern_[pos_]) != std::string_view::npos) {
      return fault("a repeat of a repeat");
    }
    return found;
  }

  std::optional<int32_t> take_number() {
    const size_t begin = pos_;
    int32_t value = 0;
    for (; !at_end() && pattern_[pos_] >= '0' && pattern_[pos_] <= '9'; ++pos_) {
      value = value > kMostRepeats ? value : value * 10 + (pattern_[pos_] - '0');
    }
    return pos_ > begin ? std::optional(value) : std::nullopt;
  }

  // The set of \d and the like; nothing for other letters.
  static std::optional<std::vector<CharRange>> named_set(char letter) {
    switch (letter) {
      case 'd':
        return kDigits;
      case 'D':
        return complement(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return complement(kSpace);
      default:
        return std::nullopt;
    }
  }

  Result<Atom> parse_escape() {
    if (pos_ + 1 < pattern_.size()) {
      if (auto ranges = named_set(pattern_[pos_ + 1])) {
        pos_ += 2;
        return set(std::move(*ranges));
      }
    }
    return Atom{FL_TRY(escaped_character(false))};
  }

  Result<char32_t> escaped_character(bool in_class) {
    ++pos_;
    if (at_end()) return fault("a backslash at the end");
    const char letter = pattern_[pos_];
    constexpr std::pair<char, char32_t> kControls[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'},
                                                       {'v', '\v'}, {'a', 7},    {'e', 27}};
    for (const auto& [name, control] : kControls) {
      if (letter == name && take(std::string_view(&name, 1))) return control;
    }
    if (in_class && take("b")) return U'\b';
    if (letter == '0' && (pos_ + 1 == pattern_.size() || pattern_[pos_ + 1] < '0' || pattern_[pos_ + 1] > '9')) {
      ++pos_;
      return U'\0';
    }
    if (letter == 'x' || letter == 'u') return hex_character();
    const bool is_word =
        (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    if (is_word) return refuse(std::string("'\\") + letter + "'");
    return next_character();
  }

  Result<char32_t> hex_character() {
    const size_t digits = pattern_[pos_] == 'x' ? 2 : 4;
    ++pos_;
    if (take("{")) {
      const char32_t value = FL_TRY(hex_value(0));
      return take("}") ? Result<char32_t>(value) : fault("'{' without '}'");
    }
    const char32_t value = FL_TRY(hex_value(digits));
    if (digits == 4 && value >= 0xD800 && value <= 0xDBFF && take("\\u")) {
      const char32_t low = FL_TRY(hex_value(4));
      if (low < 0xDC00 || low > 0xDFFF) return fault("half of a surrogate pair");
      return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
    return value;
  }

  // `digits` of them, or with 0 as many as there are.
  Result<char32_t> hex_value(size_t digits) {
    char32_t value = 0;
    size_t count = 0;
    for (; !at_end() && (digits == 0 || count < digits); ++count, ++pos_) {
      const char c = pattern_[pos_] | 0x20;
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit && (c < 'a' || c > 'f')) break;
      value = value * 16 + static_cast<char32_t>(is_digit ? c - '0' : c - 'a' + 10);
      if (value > kLastCodePoint) return fault("a character beyond U+10FFFF");
    }
    if (count == 0 || count < digits) return fault("hexadecimal digits missing");
    return value;
  }

  Result<Atom> parse_class() {
    const bool negated = take("^");
    if (looks_at("]")) return refuse("an empty class, or ']' in front without a backslash");
    std::vector<CharRange> ranges;
    while (!at_end() && !looks_at("]")) {
      if (looks_at("[:") || looks_at("[=") || looks_at("[.")) return refuse("a POSIX class");
      if (looks_at("\\") && pos_ + 1 < pattern_.size()) {
        if (const auto named = named_set(pattern_[pos_ + 1])) {
          pos_ += 2;
          ranges.insert(ranges.end(), named->begin(), named->end());
          continue;
        }
      }
      const char32_t first = looks_at("\\") ? FL_TRY(escaped_character(true)) : next_character();
      char32_t last = first;
      if (looks_at("-") && pos_ + 1 < pattern_.size() && pattern_[pos_ + 1] != ']') {
        ++pos_;
        if (looks_at("\\") && pos_ + 1 < pattern_.size() && named_set(pattern_[pos_ + 1])) {
          return fault("a range that ends in a set");
        }
        last = looks_at("\\") ? FL_TRY(escaped_character(true)) : next_character();
        if (last < first) return fault("a range whose end is before its start");
      }
      ranges.push_back({first, last});
    }
    if (!take("]")) return fault("'[' without ']'");
    return set(negated ? complement(ranges) : tidy_ranges(std::move(ranges)));
  }

  Grammar& grammar_;
  std::string_view pattern_;
  RegexOptions options_;
  size_t pos_ = 0;
};

}  // namespace

std::string json_spelled(std::string_view utf8) {
  std::string spelled;
  for (size_t pos = 0; pos < utf8.size();) {
    const CodePoint point = decode_utf8(utf8, pos);
    spelled += json_spelling(point.value);
    pos += point.length;
  }
  return spelled;
}

ExprId spelled_chars(Grammar& grammar, std::vector<CharRange> ranges, Alphabet alphabet) {
  if (alphabet == Alphabet::kText) return grammar.chars(std::move(ranges));
  const std::vector<CharRange> escaped(kEscapedRanges.begin(), kEscapedRanges.end());
  ranges = tidy_ranges(std::move(ranges));
  std::vector<std::string> spelled;
  for (const CharRange& range : intersect(ranges, escaped)) {
    for (char32_t c = range.first; c <= range.last; ++c) spelled.push_back(json_spelling(c));
  }
  ranges = intersect(ranges, complement(escaped));
  if (spelled.empty()) return grammar.chars(std::move(ranges));
  const ExprId escapes = grammar.one_of(std::move(spelled));
  return ranges.empty() ? escapes : grammar.choice({grammar.chars(std::move(ranges)), escapes});
}

Result<ExprId> parse_regex(Grammar& grammar, std::string_view pattern, RegexOptions options) {
  if (pattern.size() > kMostPatternBytes) {
    return invalid_argument("regular expression: " + std::to_string(pattern.size()) + " bytes, at most " +
                            std::to_string(kMostPatternBytes) + " wanted");
  }
  if (!is_valid_utf8(pattern)) return invalid_argument("regular expression: not valid UTF-8");
  return RegexParser(grammar, pattern, options).parse();
}

}  // namespace firstlight::text::grammar
