// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/json_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/json.h"
#include "text/grammar/regex_syntax.h"
#include "text/unicode.h"

namespace firstlight::text::grammar {
namespace {

// What a string may hold without an escape.
const std::vector<CharRange> kPlain = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, kLastCodePoint}};

// Years have four digits and do not begin with 0; a leap day has a leap year; there are no leap seconds.
constexpr std::string_view kDate =
    "[1-9][0-9]{3}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    "|([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29";
constexpr std::string_view kTime =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kDuration =
    "P([0-9]{1,9}W|([0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?|[0-9]{1,9}M([0-9]{1,9}D)?|[0-9]{1,9}D)"
    "(T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))?"
    "|T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))";
constexpr std::string_view kLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
constexpr std::string_view kOctet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

std::string format_pattern(std::string_view name) {
  const std::string date(kDate), time(kTime), label(kLabel), octet(kOctet);
  const std::string host = label + "(\\." + label + "){0,2}";
  if (name == "date") return date;
  if (name == "time") return time;
  if (name == "date-time") return "(" + date + ")T" + time;
  if (name == "duration") return std::string(kDuration);
  if (name == "uuid") return "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
  if (name == "hostname") return host;
  if (name == "email") {
    return "[A-Za-z0-9_%+-]{1,32}(\\.[A-Za-z0-9_%+-]{1,30})?@" + label + "(\\." + label + "){1,3}";
  }
  if (name == "ipv4") return "(" + octet + "\\.){3}" + octet;
  if (name == "uri") {
    return "[a-z][a-z0-9+.-]{1,15}://" + host + "(:[0-9]{1,5})?(/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*" +
           "(\\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?(#[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?";
  }
  return "";
}

const std::vector<CharRange> kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};

bool is_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

}  // namespace

JsonText::JsonText(Grammar& grammar, StringSpelling strings) : grammar_(grammar), strings_(std::move(strings)) {
  if (!strings_.mark.empty()) barred_ = decode_utf8(strings_.mark, 0).value;
  characters_ = strings_.plain ? std::vector<CharRange>{{0, kLastCodePoint}} : kPlain;
  if (barred_ != 0) characters_ = intersect(characters_, complement({{barred_, barred_}}));
  key_characters_ = strings_.plain ? kWord : characters_;
}

ExprId JsonText::quoted(ExprId body) {
  const ExprId quote = grammar_.text(strings_.plain ? strings_.quote : "\"");
  return grammar_.sequence({quote, body, quote});
}

ExprId JsonText::plain_string(int32_t min, int32_t max) {
  const bool any = min == 0 && max == kUnbounded;
  if (any && string_ >= 0) return string_;
  const ExprId body = any && !strings_.mark.empty() ? text_without(grammar_, strings_.mark)
                                                    : grammar_.repeat(grammar_.chars(characters_), min, max);
  if (!any) return quoted(body);
  string_ = grammar_.shared("a string", quoted(body));
  return string_;
}

// The inside of a JSON string. What may be the beginning of the mark is written as an escape.
std::string JsonText::spelled(const std::string& text) const {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint point = decode_utf8(text, pos);
    if (point.value == barred_ && barred_ != 0 && barred_ < 0x10000) {
      out += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[(barred_ >> shift) & 15];
    } else {
      out += json_spelled(std::string_view(text).substr(pos, point.length));
    }
    pos += point.length;
  }
  return out;
}

ExprId JsonText::string_constant(const std::string& text) {
  if (!strings_.plain) return grammar_.text('"' + spelled(text) + '"');
  const bool has_mark = !strings_.mark.empty() && text.find(strings_.mark) != std::string::npos;
  return has_mark ? grammar_.nothing() : quoted(grammar_.text(text));
}

ExprId JsonText::any_key() {
  return strings_.plain ? grammar_.repeat(grammar_.chars(kWord), 1, kUnbounded) : string(0, kUnbounded);
}

Result<ExprId> JsonText::pattern(std::string_view regex, bool search) {
  const Alphabet alphabet = strings_.plain ? Alphabet::kText : Alphabet::kJsonString;
  auto body = parse_regex(grammar_, regex, {.alphabet = alphabet, .search = search, .without = barred_});
  if (!body.ok()) return body;
  return quoted(*body);
}

ExprId JsonText::comma() {
  if (comma_ < 0) comma_ = grammar_.sequence({grammar_.text(","), grammar_.optional(grammar_.text(" "))});
  return comma_;
}

ExprId JsonText::colon() {
  if (colon_ < 0) colon_ = grammar_.sequence({grammar_.text(":"), grammar_.optional(grammar_.text(" "))});
  return colon_;
}

ExprId JsonText::escape() {
  if (escape_ >= 0) return escape_;
  const ExprId hex = grammar_.chars({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
  const ExprId low_hex = grammar_.chars({{'0', '7'}});
  const ExprId three = grammar_.repeat(hex, 3, 3);
  const auto upper_or_lower = [&](char32_t first, char32_t last) {
    return grammar_.chars({{first, last}, {first | 0x20, last | 0x20}});
  };
  const ExprId d = upper_or_lower('D', 'D');
  // Surrogates come in pairs.
  const ExprId not_d = grammar_.chars({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}});
  const ExprId two = grammar_.repeat(hex, 2, 2);
  const ExprId high = grammar_.sequence({d, grammar_.chars({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), two});
  const ExprId low = grammar_.sequence({d, upper_or_lower('C', 'F'), two});
  const ExprId code = grammar_.choice({grammar_.sequence({not_d, three}), grammar_.sequence({d, low_hex, two}),
                                       grammar_.sequence({high, grammar_.text("\\u"), low})});
  const ExprId whole = grammar_.sequence(
      {grammar_.text("\\"), grammar_.choice({grammar_.one_of({"\"", "\\", "/", "b", "f", "n", "r", "t"}),
                                             grammar_.sequence({grammar_.text("u"), code})})});
  escape_ = grammar_.shared("an escape", whole);
  return escape_;
}

ExprId JsonText::string(int32_t min, int32_t max) {
  if (strings_.plain) return plain_string(min, max);
  const bool any = min == 0 && max == kUnbounded;
  if (any && string_ >= 0) return string_;
  if (character_ < 0) character_ = grammar_.choice({grammar_.chars(characters_), escape()});
  const ExprId whole = quoted(grammar_.repeat(character_, min, max));
  if (!any) return whole;
  string_ = grammar_.shared("a string", whole);
  return string_;
}

ExprId JsonText::any_integer() {
  if (integer_ >= 0) return integer_;
  const ExprId digits = grammar_.repeat(grammar_.chars({{'0', '9'}}), 0, kUnbounded);
  integer_ = grammar_.shared(
      "an integer", grammar_.choice({grammar_.text("0"), grammar_.sequence({grammar_.optional(grammar_.text("-")),
                                                                            grammar_.chars({{'1', '9'}}), digits})}));
  return integer_;
}

ExprId JsonText::any_number() {
  if (number_ >= 0) return number_;
  const ExprId digit = grammar_.chars({{'0', '9'}});
  const ExprId whole = grammar_.choice(
      {grammar_.text("0"), grammar_.sequence({grammar_.chars({{'1', '9'}}), grammar_.repeat(digit, 0, kUnbounded)})});
  const ExprId fraction =
      grammar_.optional(grammar_.sequence({grammar_.text("."), grammar_.repeat(digit, 1, kUnbounded)}));
  const ExprId exponent = grammar_.optional(grammar_.sequence(
      {grammar_.one_of({"e", "E"}), grammar_.optional(grammar_.one_of({"+", "-"})), grammar_.repeat(digit, 1, 2)}));
  number_ = grammar_.shared("a number",
                            grammar_.sequence({grammar_.optional(grammar_.text("-")), whole, fraction, exponent}));
  return number_;
}

ExprId JsonText::list_of(ExprId item, std::string_view open, std::string_view close) {
  const ExprId more = grammar_.repeat(grammar_.sequence({comma(), item}), 0, kUnbounded);
  return grammar_.sequence(
      {grammar_.text(open), grammar_.optional(grammar_.sequence({item, more})), grammar_.text(close)});
}

ExprId JsonText::any_value() {
  if (value_ >= 0) return grammar_.call(value_);
  value_ = grammar_.add_rule("a value");
  object_ =
      grammar_.shared("an object", list_of(grammar_.sequence({any_key(), colon(), grammar_.call(value_)}), "{", "}"));
  array_ = grammar_.shared("an array", list_of(grammar_.call(value_), "[", "]"));
  grammar_.define(value_, grammar_.choice({object_, array_, string(0, kUnbounded), any_number(),
                                           grammar_.one_of({"true", "false", "null"})}));
  return grammar_.call(value_);
}

ExprId JsonText::any_object() {
  any_value();
  return object_;
}

ExprId JsonText::any_array() {
  any_value();
  return array_;
}

ExprId JsonText::one_of(const Json& values) {
  std::vector<ExprId> ways;
  std::vector<std::string> strings;
  for (const Json& value : values) {
    if (value.is_string() && !strings_.plain) {
      strings.push_back('"' + spelled(value.get_ref<const std::string&>()) + '"');
    } else {
      ways.push_back(constant(value));
    }
  }
  ways.push_back(grammar_.one_of(std::move(strings)));
  return grammar_.choice(std::move(ways));
}

ExprId JsonText::key(const std::string& name) {
  if (!strings_.plain) return string_constant(name);
  return is_word(name) ? grammar_.text(name) : grammar_.nothing();
}

ExprId JsonText::constant(const Json& value) {
  if (value.is_string()) return string_constant(value.get<std::string>());
  if (!value.is_structured()) return grammar_.text(dump_json(value));
  std::vector<ExprId> parts = {grammar_.text(value.is_object() ? "{" : "[")};
  for (const auto& [name, member] : value.items()) {
    if (parts.size() > 1) parts.push_back(comma());
    if (value.is_object()) parts.insert(parts.end(), {key(name), colon()});
    parts.push_back(constant(member));
  }
  parts.push_back(grammar_.text(value.is_object() ? "}" : "]"));
  return grammar_.sequence(std::move(parts));
}

// A tree of the names by code points; from each place on, whatever leaves the tree may go on freely, and a text may end
// where no name does.
ExprId JsonText::other_key(const std::vector<std::string>& names) {
  if (names.empty()) return any_key();
  struct Place {
    std::map<char32_t, size_t> next;
    bool is_name = false;
  };
  std::vector<Place> places(1);
  for (const std::string& name : names) {
    size_t at = 0;
    for (size_t pos = 0; pos < name.size();) {
      const CodePoint point = decode_utf8(name, pos);
      pos += point.length;
      const auto [found, is_new] = places[at].next.try_emplace(point.value, places.size());
      at = found->second;
      if (is_new) places.emplace_back();
    }
    places[at].is_name = true;
  }
  const ExprId anything = grammar_.repeat(grammar_.chars(key_characters_), 0, kUnbounded);
  std::vector<RuleId> rules;
  for (size_t i = 0; i < places.size(); ++i) rules.push_back(grammar_.add_rule("another key"));
  for (size_t i = 0; i < places.size(); ++i) {
    std::vector<ExprId> ways;
    std::vector<CharRange> taken;
    for (const auto& [c, target] : places[i].next) {
      taken.push_back({c, c});
      if (intersect(key_characters_, {{c, c}}).empty()) continue;  // a name that needs an escape
      ways.push_back(grammar_.sequence({grammar_.chars({{c, c}}), grammar_.call(rules[target])}));
    }
    ways.push_back(grammar_.sequence({grammar_.chars(intersect(key_characters_, complement(taken))), anything}));
    if (!places[i].is_name && (i > 0 || !strings_.plain)) ways.push_back(grammar_.text(""));
    grammar_.define(rules[i], grammar_.choice(std::move(ways)));
  }
  return strings_.plain ? grammar_.call(rules[0]) : quoted(grammar_.call(rules[0]));
}

std::optional<Result<ExprId>> JsonText::format(std::string_view name) {
  const std::string regex = format_pattern(name);
  if (regex.empty()) return std::nullopt;
  return pattern(regex, false);
}

}  // namespace firstlight::text::grammar
