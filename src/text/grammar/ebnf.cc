// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/ebnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "text/unicode.h"

namespace firstlight::text::grammar {
namespace {

constexpr int kMostNested = 100;
constexpr size_t kMostSourceBytes = size_t{1} << 20;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

class EbnfParser {
 public:
  explicit EbnfParser(std::string_view source) : source_(source) {}

  Result<Grammar> parse() {
    skip_blank();
    while (!at_end()) {
      if (!begins_rule()) return fault("a rule 'name ::= …' wanted");
      FL_TRY(parse_rule());
    }
    const auto root = rule_of_.find("root");
    if (root == rule_of_.end() || grammar_.rules()[static_cast<size_t>(root->second)].body < 0) {
      return invalid_argument("grammar: no rule named 'root'");
    }
    grammar_.set_root(root->second);
    return std::move(grammar_);
  }

 private:
  bool at_end() const { return pos_ >= source_.size(); }
  bool looks_at(std::string_view text) const { return source_.substr(pos_).starts_with(text); }
  bool take(std::string_view text) {
    if (!looks_at(text)) return false;
    pos_ += text.size();
    skip_blank();
    return true;
  }
  Status fault(const std::string& what) const {
    const std::string_view before = source_.substr(0, pos_);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t column = pos_ - (before.rfind('\n') + 1) + 1;
    return invalid_argument("grammar, line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
                            what);
  }
  void skip_blank() {
    for (; !at_end(); ++pos_) {
      if (source_[pos_] == '#') {
        pos_ = std::min(source_.find('\n', pos_), source_.size() - 1);
      } else if (std::string_view(" \t\r\n").find(source_[pos_]) == std::string_view::npos) {
        return;
      }
    }
  }
  std::string_view name_here() const {
    size_t end = pos_;
    while (end < source_.size() && is_name(source_[end])) ++end;
    return source_.substr(pos_, end - pos_);
  }
  bool begins_rule() const {
    size_t after = pos_ + name_here().size();
    while (after < source_.size() && (source_[after] == ' ' || source_[after] == '\t')) ++after;
    return after > pos_ && !name_here().empty() && source_.substr(after).starts_with("::=");
  }
  RuleId rule_named(std::string_view name) {
    const auto [found, is_new] = rule_of_.try_emplace(std::string(name), -1);
    if (is_new) found->second = grammar_.add_rule(found->first);
    return found->second;
  }

  Status parse_rule() {
    const std::string_view name = name_here();
    current_ = rule_named(name);
    if (grammar_.rules()[static_cast<size_t>(current_)].body >= 0) {
      return fault("rule '" + std::string(name) + "' is defined twice");
    }
    pos_ = source_.find("::=", pos_) + 3;
    skip_blank();
    // Alternatives that begin with the rule itself, and what follows it there: written as a repeat after the others.
    std::vector<ExprId> others, tails;
    do {
      bool recursive = false;
      const ExprId part = FL_TRY(sequence(0, &recursive));
      (recursive ? tails : others).push_back(part);
    } while (take("|"));
    if (!at_end() && !begins_rule()) return fault(std::string("'") + source_[pos_] + "' is not expected here");
    ExprId body = grammar_.choice(std::move(others));
    if (!tails.empty()) {
      body = grammar_.sequence({body, grammar_.repeat(grammar_.choice(std::move(tails)), 0, kUnbounded)});
    }
    grammar_.define(current_, body);
    return ok_status();
  }

  Result<ExprId> alternatives(int depth) {
    if (depth > kMostNested) return fault("more than " + std::to_string(kMostNested) + " groups inside one another");
    std::vector<ExprId> parts;
    do {
      parts.push_back(FL_TRY(sequence(depth, nullptr)));
    } while (take("|"));
    return grammar_.choice(std::move(parts));
  }

  // `recursive`, where given, is told that the sequence began with the current rule, which is then left out.
  Result<ExprId> sequence(int depth, bool* recursive) {
    std::vector<ExprId> parts;
    bool first = true;
    while (!at_end() && !looks_at("|") && !looks_at(")") && !begins_rule()) {
      const bool calls_itself = std::exchange(first, false) && recursive != nullptr &&
                                name_here() == grammar_.rules()[static_cast<size_t>(current_)].name;
      const ExprId atom = FL_TRY(parse_atom(depth));
      const auto repeat = FL_TRY(parse_repeat());
      if (calls_itself && !repeat) {
        *recursive = true;
      } else {
        parts.push_back(repeat ? grammar_.repeat(atom, repeat->first, repeat->second) : atom);
      }
    }
    return grammar_.sequence(std::move(parts));
  }

  Result<ExprId> parse_atom(int depth) {
    if (take("(")) {
      const ExprId inner = FL_TRY(alternatives(depth + 1));
      if (!take(")")) return fault("')' wanted");
      return inner;
    }
    if (take(".")) return grammar_.chars({{0, kLastCodePoint}});
    if (looks_at("[")) return parse_class();
    if (looks_at("\"") || looks_at("'")) return parse_text();
    const std::string_view name = name_here();
    if (name.empty()) return fault(std::string("'") + source_[pos_] + "' is not expected here");
    pos_ += name.size();
    skip_blank();
    return grammar_.call(rule_named(name));
  }

  Result<std::optional<std::pair<int32_t, int32_t>>> parse_repeat() {
    using Repeat = std::optional<std::pair<int32_t, int32_t>>;
    if (take("*")) return Repeat({0, kUnbounded});
    if (take("+")) return Repeat({1, kUnbounded});
    if (take("?")) return Repeat({0, 1});
    if (!take("{")) return Repeat();
    const auto min = take_number();
    const bool comma = take(",");
    const auto max = take_number();
    if (!take("}") || (!min && !max)) return fault("a repeat {n}, {n,}, {,m} or {n,m} wanted");
    const Repeat repeat({min.value_or(0), max ? *max : comma ? kUnbounded : *min});
    if (max && *max < repeat->first) return fault("a repeat whose upper bound is below the lower one");
    return repeat;
  }

  std::optional<int32_t> take_number() {
    const size_t begin = pos_;
    int32_t value = 0;
    for (; !at_end() && source_[pos_] >= '0' && source_[pos_] <= '9'; ++pos_) {
      value = value > kMostRepeats ? value : value * 10 + (source_[pos_] - '0');
    }
    const bool any = pos_ > begin;
    skip_blank();
    return any ? std::optional(value) : std::nullopt;
  }

  Result<char32_t> character() {
    if (at_end() || source_[pos_] == '\n') return fault("the line ends in a text or a class");
    if (source_[pos_] != '\\') {
      const CodePoint point = decode_utf8(source_, pos_);
      pos_ += point.length;
      return point.value;
    }
    ++pos_;
    const char letter = at_end() ? '\0' : source_[pos_++];
    constexpr std::pair<char, char32_t> kEscapes[] = {{'n', '\n'},  {'r', '\r'}, {'t', '\t'}, {'\\', '\\'}, {'"', '"'},
                                                      {'\'', '\''}, {'[', '['},  {']', ']'},  {'-', '-'},   {'^', '^'}};
    for (const auto& [name, meaning] : kEscapes) {
      if (letter == name) return meaning;
    }
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0) return fault("an escape that is not known");
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++pos_) {
      const char c = at_end() ? '\0' : static_cast<char>(source_[pos_] | 0x20);
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit && (c < 'a' || c > 'f')) return fault("hexadecimal digits missing");
      value = value * 16 + static_cast<char32_t>(is_digit ? c - '0' : c - 'a' + 10);
    }
    if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF)) return fault("no character of Unicode");
    return value;
  }

  Result<ExprId> parse_text() {
    const char quote = source_[pos_++];
    std::string text;
    while (at_end() || source_[pos_] != quote) append_utf8(text, FL_TRY(character()));
    ++pos_;
    skip_blank();
    return grammar_.text(text);
  }

  Result<ExprId> parse_class() {
    ++pos_;
    const bool negated = !at_end() && source_[pos_] == '^';
    if (negated) ++pos_;
    std::vector<CharRange> ranges;
    while (at_end() || source_[pos_] != ']') {
      const char32_t first = FL_TRY(character());
      char32_t last = first;
      if (looks_at("-") && !looks_at("-]")) {
        ++pos_;
        last = FL_TRY(character());
        if (last < first) return fault("a range whose end is before its start");
      }
      ranges.push_back({first, last});
    }
    ++pos_;
    skip_blank();
    return grammar_.chars(negated ? complement(ranges) : std::move(ranges));
  }

  std::string_view source_;
  size_t pos_ = 0;
  Grammar grammar_;
  RuleId current_ = -1;
  std::map<std::string, RuleId, std::less<>> rule_of_;
};

}  // namespace

Result<Grammar> parse_ebnf(std::string_view source) {
  if (source.size() > kMostSourceBytes) {
    return invalid_argument("grammar: " + std::to_string(source.size()) + " bytes, at most " +
                            std::to_string(kMostSourceBytes) + " wanted");
  }
  if (!is_valid_utf8(source)) return invalid_argument("grammar: not valid UTF-8");
  return EbnfParser(source).parse();
}

}  // namespace firstlight::text::grammar
