// SPDX-License-Identifier: Apache-2.0
// The languages of constrained output: what each description allows, by the matcher, by a plain recogniser that walks
// the expressions, by PCRE2 for regular expressions, and by arithmetic for bounds. What is not supported is named.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "base/json.h"
#include "text/grammar/ebnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex_syntax.h"
#include "text/grammar/token_mask.h"
#include "text/tokenizers/regex.h"
#include "text/unicode.h"

namespace firstlight::text::grammar {
namespace {

using Kind = ConstraintSpec::Kind;

// All ways through the expressions, by definition and with no machine in between.
class PlainRecogniser {
 public:
  PlainRecogniser(const Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  bool accepts() { return of_rule(grammar_.root(), 0).count(text_.size()) > 0; }

 private:
  using Ends = std::set<size_t>;

  const Ends& of_rule(RuleId rule, size_t begin) {
    const auto [found, is_new] = known_.try_emplace({rule, begin});
    if (is_new) {
      Ends ends = of(grammar_.rules()[static_cast<size_t>(rule)].body, begin);
      known_[{rule, begin}] = std::move(ends);
    }
    return known_[{rule, begin}];
  }

  void add_text(const std::string& text, size_t begin, Ends& ends) const {
    if (text_.substr(begin).starts_with(text)) ends.insert(begin + text.size());
  }

  Ends of(ExprId id, size_t begin) {
    const Expr& expr = grammar_.expr(id);
    Ends ends;
    switch (expr.kind) {
      case Expr::Kind::kText:
        add_text(expr.text, begin, ends);
        break;
      case Expr::Kind::kOneOf:
        for (const std::string& text : expr.texts) add_text(text, begin, ends);
        break;
      case Expr::Kind::kChars: {
        if (begin >= text_.size()) break;
        const CodePoint point = decode_utf8(text_, begin);
        for (const CharRange& range : expr.ranges) {
          if (point.valid && range.first <= point.value && point.value <= range.last) ends.insert(begin + point.length);
        }
        break;
      }
      case Expr::Kind::kSequence:
        ends = {begin};
        for (const ExprId part : expr.parts) ends = after(part, ends);
        break;
      case Expr::Kind::kChoice:
        for (const ExprId part : expr.parts) ends.merge(of(part, begin));
        break;
      case Expr::Kind::kRepeat: {
        Ends now = {begin};
        for (int32_t i = 0; !now.empty() && (expr.max == kUnbounded || i <= expr.max); ++i) {
          if (i >= expr.min) {
            const size_t before = ends.size();
            ends.insert(now.begin(), now.end());
            if (i > expr.min && ends.size() == before && expr.max == kUnbounded) break;
          }
          now = after(expr.parts[0], now);
        }
        break;
      }
      case Expr::Kind::kCall:
        ends = of_rule(expr.rule, begin);
        break;
    }
    return ends;
  }

  Ends after(ExprId part, const Ends& begins) {
    Ends ends;
    for (const size_t begin : begins) ends.merge(of(part, begin));
    return ends;
  }

  const Grammar& grammar_;
  std::string_view text_;
  std::map<std::pair<RuleId, size_t>, Ends> known_;
};

// A description and the verdicts of matcher and recogniser, which have to agree.
class Language {
 public:
  explicit Language(Result<Grammar> grammar) {
    EXPECT_TRUE(grammar.ok()) << grammar.status().message();
    if (!grammar.ok()) return;
    grammar_ = std::move(*grammar);
    auto automaton = Automaton::compile(grammar_);
    EXPECT_TRUE(automaton.ok()) << automaton.status().message();
    if (automaton.ok()) matcher_.emplace(std::make_shared<Automaton>(std::move(*automaton)));
  }

  bool accepts(std::string_view text) {
    if (!matcher_) return false;
    const bool machine = matcher_->may_end(matcher_->read(matcher_->start(), text));
    EXPECT_EQ(machine, PlainRecogniser(grammar_, text).accepts()) << text;
    EXPECT_FALSE(matcher_->gave_up());
    return machine;
  }

 private:
  Grammar grammar_;
  std::optional<Matcher> matcher_;
};

Result<Grammar> regex(std::string_view pattern, RegexOptions options = {}) {
  Grammar grammar;
  grammar.set_root(grammar.add_rule("root"));
  grammar.define(0, FL_TRY(parse_regex(grammar, pattern, options)));
  return grammar;
}

bool equals_pcre(const Regex& whole, std::string_view text) {
  std::vector<Span> matches;
  EXPECT_TRUE(whole.find_all(text, matches).ok());
  for (const Span& match : matches) {
    if (match.begin == 0 && match.end == text.size()) return true;
  }
  return false;
}

TEST(RegexLanguage, EqualsPcreOnRandomTexts) {
  constexpr const char* kPatterns[] = {"a*b+c?",          "(ab|a)(c|bcd)(d*)",   "[^a]b{2,3}|c{0,}",   "(a|b)*abb",
                                       "(?:a{2,5}){2,3}", "((a|b){3,9}c?){2,4}", "\\d{1,3}(\\.\\d+)?", "[a-z-]+\\s?x",
                                       "(a?){4}a{4}",     "(|a|ab)(c|)",         "é[à-ü]*|日.",        "a{,2}"};
  std::mt19937 random(5);
  const std::vector<std::string> letters = {"a", "b", "c", "d",  "x", "1", ".", " ",
                                            "-", "é", "ü", "日", "{", "}", ",", "2"};
  for (const char* pattern : kPatterns) {
    auto grammar = regex(pattern);
    if (!grammar.ok()) {
      EXPECT_STREQ(pattern, "a{,2}");
      continue;
    }
    Language language(std::move(grammar));
    const auto pcre = Regex::compile("\\A(?:" + std::string(pattern) + ")\\z");
    ASSERT_TRUE(pcre.ok());
    int num_accepted = 0;
    for (int i = 0; i < 1500; ++i) {
      std::string text;
      const size_t width = 1 + random() % letters.size();
      for (size_t length = 1 + random() % 10; length > 0; --length) text += letters[random() % width];
      const bool accepted = language.accepts(text);
      num_accepted += accepted ? 1 : 0;
      ASSERT_EQ(accepted, equals_pcre(*pcre, text)) << pattern << " on " << text;
    }
    EXPECT_GT(num_accepted, 0) << pattern;
  }
}

TEST(RegexLanguage, EscapesClassesAndAnchors) {
  Language one(regex("^[\\x41-\\x43\\u00e9\\-\\]]\\.\\/\\u{1F600}\\t$"));
  EXPECT_TRUE(one.accepts("B./😀\t"));
  EXPECT_TRUE(one.accepts("]./😀\t"));
  EXPECT_FALSE(one.accepts("D./😀\t"));
  Language lazy(regex("a+?b{2}?(?P<name>c)(?<other>d)"));
  EXPECT_TRUE(lazy.accepts("aabbcd"));
  Language dot(regex("."));
  EXPECT_TRUE(dot.accepts("\xF4\x8F\xBF\xBF"));
  EXPECT_FALSE(dot.accepts("\n"));
  EXPECT_FALSE(dot.accepts("\xED\xA0\x80")) << "a surrogate is no character";
  Language search(regex("ab|^c$", {.search = true}));
  EXPECT_TRUE(search.accepts("xxabyy"));
  EXPECT_TRUE(search.accepts("c"));
  EXPECT_FALSE(search.accepts("xc"));
  Language in_json(regex("[\"\\n\\\\a]+", {.alphabet = Alphabet::kJsonString}));
  EXPECT_TRUE(in_json.accepts("a\\\"\\n\\\\"));
  EXPECT_FALSE(in_json.accepts("\""));
}

TEST(RegexLanguage, NamesWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> kCases[] = {{"a(?=b)", "look-around at byte 1"},
                                                        {"(?<!x)a", "look-around"},
                                                        {"(a)\\1", "'\\1' at byte 4"},
                                                        {"\\bword", "'\\b'"},
                                                        {"a++", "possessive"},
                                                        {"(?i)a", "'(?i'"},
                                                        {"(?>a)", "'(?>'"},
                                                        {"\\p{L}", "'\\p'"},
                                                        {"[[:alpha:]]", "POSIX"},
                                                        {"a^b", "elsewhere"},
                                                        {"(", "without ')'"},
                                                        {"a)", "')' without"},
                                                        {"*a", "nothing to repeat"},
                                                        {"a**", "repeat of a"},
                                                        {"[b-a]", "end is before"},
                                                        {"[a", "without ']'"},
                                                        {"a{3,2}", "upper bound"},
                                                        {"\\", "backslash at the end"},
                                                        {"[]", "empty class"},
                                                        {"\\x4", "digits"},
                                                        {"(?P<n", "without '>'"},
                                                        {"a{1,2000000}", "at most 1000000"}};
  for (const auto& [pattern, words] : kCases) {
    const auto automaton = compile_automaton({Kind::kRegex, pattern});
    ASSERT_FALSE(automaton.ok()) << pattern;
    EXPECT_NE(automaton.status().message().find(words), std::string::npos)
        << pattern << ": " << automaton.status().message();
  }
}

TEST(EbnfLanguage, RulesGroupsRepeatsAndRecursion) {
  Language sums(
      parse_ebnf("root ::= expr \"\\n\" # a comment\n"
                 "expr ::= expr [-+] term | term\n"
                 "term ::= term '*' atom | atom\n"
                 "atom ::= [0-9]{1,3} | '(' expr ')'\n"));
  EXPECT_TRUE(sums.accepts("1+(22*3-(4))*555\n"));
  EXPECT_FALSE(sums.accepts("1+\n"));
  EXPECT_FALSE(sums.accepts("1+(2\n"));
  EXPECT_FALSE(sums.accepts("1234\n"));
  Language pairs(parse_ebnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" |\n \"\""));
  EXPECT_TRUE(pairs.accepts("aaaabcbc"));
  EXPECT_FALSE(pairs.accepts("aaab"));
  EXPECT_TRUE(pairs.accepts(std::string(30, 'a') + std::string(15, 'b') + std::string(15, 'c'))) << "2^30 ways";
  Language odd(parse_ebnf("root ::= ([^a-c\\]] . | \"\\u00e9\\x41\"){2,} end?\nend::=\"!\""));
  EXPECT_TRUE(odd.accepts("dxéAé日!"));
  EXPECT_FALSE(odd.accepts("ax"));
  Language empty(parse_ebnf("root ::= x x* y\nx ::= \"a\"*\ny ::= x \"b\" | \"\""));
  EXPECT_TRUE(empty.accepts(""));
  EXPECT_TRUE(empty.accepts("aaaab"));
}

TEST(EbnfLanguage, NamesTheFault) {
  const std::pair<const char*, const char*> kCases[] = {
      {"x ::= \"a\"", "no rule named 'root'"},
      {"root ::= y", "'y' is used and not defined"},
      {"root ::= \"a\" root", "no text matches"},
      {"root ::= x root \"b\" | \"c\"\nx ::= \"\" | \"d\"", "left recursion"},
      {"root ::= y \"a\" | \"b\"\ny ::= root | \"c\"", "left recursion"},
      {"root ::= \"a", "line 1, column 12"},
      {"root ::= \"a\"\nroot ::= \"b\"", "defined twice"},
      {"root ::= (\"a\"", "')' wanted"},
      {"root ::= \"a\" )", "')' is not expected"},
      {"root ::= \"\\q\"", "escape"},
      {"root ::= [b-a]", "before its start"},
      {"root ::= \"a\"{2,1}", "upper bound"},
      {"root \"a\"", "wanted"}};
  for (const auto& [source, words] : kCases) {
    const auto automaton = compile_automaton({Kind::kGrammar, source});
    ASSERT_FALSE(automaton.ok()) << source;
    EXPECT_NE(automaton.status().message().find(words), std::string::npos)
        << source << ": " << automaton.status().message();
  }
}

TEST(SchemaLanguage, IntegerBoundsAreExact) {
  const int kBounds[] = {-120, -100, -99, -10, -1, 0, 1, 7, 9, 10, 11, 99, 100, 101, 250};
  for (const int low : kBounds) {
    for (const int high : kBounds) {
      if (high < low) continue;
      Language language(compile_json_schema("{\"type\":\"integer\",\"minimum\":" + std::to_string(low) +
                                            ",\"exclusiveMaximum\":" + std::to_string(high + 1) + "}"));
      for (int i = -130; i <= 260; ++i) ASSERT_EQ(language.accepts(std::to_string(i)), i >= low && i <= high) << i;
      EXPECT_FALSE(language.accepts("-0"));
      EXPECT_FALSE(language.accepts("007"));
    }
  }
  Language from(compile_json_schema(R"({"type":"integer","minimum":18446744073709551615})"));
  EXPECT_TRUE(from.accepts("18446744073709551615"));
  EXPECT_TRUE(from.accepts("99999999999999999999999"));
  EXPECT_FALSE(from.accepts("18446744073709551614"));
}

TEST(SchemaLanguage, NumberBoundsAreExact) {
  std::mt19937 random(3);
  const double kBounds[] = {-12.5, -1, -0.25, 0, 0.05, 0.5, 1, 1.5, 9.99, 10, 123.456};
  for (const double low : kBounds) {
    for (const double high : kBounds) {
      if (high <= low) continue;
      const bool out = random() % 2 == 0;
      Json schema = {{"type", "number"}};
      schema[out ? "exclusiveMinimum" : "minimum"] = low;
      schema[out ? "exclusiveMaximum" : "maximum"] = high;
      Language language(compile_json_schema(dump_json(schema)));
      for (int i = 0; i < 200; ++i) {
        const int digits = static_cast<int>(random() % 4);
        const double scale = std::pow(10.0, digits);
        const double value = std::round((i < 40 ? (i % 2 ? low : high) + (static_cast<double>(i) - 20) / scale
                                                : static_cast<double>(random() % 300) / 2 - 20) *
                                        scale) /
                             scale;
        char text[64];
        std::snprintf(text, sizeof(text), "%.*f", digits, value);
        const double read = std::strtod(text, nullptr);
        if (std::string_view(text).starts_with("-0") && read == 0) continue;
        const bool inside = out ? read > low && read < high : read >= low && read <= high;
        ASSERT_EQ(language.accepts(text), inside) << text << " in " << low << ".." << high << (out ? " out" : "");
      }
    }
  }
}

struct SchemaCase {
  const char* schema;
  std::vector<const char*> valid;
  std::vector<const char*> invalid;
};

TEST(SchemaLanguage, AllowsWhatTheSchemaAllows) {
  const std::vector<SchemaCase> kCases = {
      {R"({})", {"1", "\"a\"", "[1, {\"x\":null}]", "-0.5e-10", "true"}, {"", "tru", "[1,]", "{\"a\"}", "01", "1."}},
      {R"({"type":"object"})", {"{}", "{\"a\": 1, \"b\":[]}"}, {"[]", "{\"a\":1,}"}},
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"]})",
       {R"({"b":""})", R"({"a":1, "b":"x"})", R"({"a":1,"b":"x","c": null})", R"({"b":"","c":null})"},
       {R"({})", R"({"a":1})", R"({"b":"","a":1})", R"({"b":"","d":1})", R"({"a":1,"c":null})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":{"type":"boolean"}})",
       {R"({})", R"({"a":1,"b":2,"c":true})", R"({"c":true,"":false})", R"({"b":2,"bb":true})", R"({"é":true})"},
       {R"({"a":1,"a":true})", R"({"b":true})", R"({"a":1,"c":3})", R"({"\u0062":true})"}},
      {R"({"properties":{},"additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":["string","null"],"minLength":2,"maxLength":3})",
       {R"("ab")", R"("é日x")", R"("\n\u00e9")", R"("\ud83d\ude00a")", "null"},
       {R"("a")", R"("abcd")", R"("\ud83d\ude00")", R"("\ud83da")", R"("\udc00\udc00")"}},
      {R"({"type":"string"})", {R"("")", R"("a\"b\\\/\u12aF")"}, {"\"\n\"", R"("\x")", R"("\ud800")", R"("abc)"}},
      {R"({"type":"string","maxLength":40})",
       {R"("0123456789012345678901234567890123456789")"},
       {R"("01234567890123456789012345678901234567890")"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1,2, 3]"},
       {"[]", "[1,2,3,4]", "[1,]", "[\"a\"]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[1,\"a\",2]", "[\"a\"]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"const":7},"minItems":2,"maxItems":3})",
       {"[1,\"a\"]", "[1, \"a\",7]"},
       {"[1]", "[1,\"a\",7,7]", "[1,\"a\",8]"}},
      {R"({"enum":["a\"b",1,null,{"x":[1,2]}]})", {R"("a\"b")", "1", "null", R"({"x": [1, 2]})"}, {"2", R"("a")"}},
      {R"({"type":"integer","enum":[1,2,"3"],"const":2})", {"2"}, {"1", "\"3\""}},
      {R"({"anyOf":[{"type":"integer"},{"type":"string","pattern":"^a+$"}]})", {"3", "\"aa\""}, {"\"b\"", "null"}},
      {R"({"type":"string","pattern":"b\"?c"})", {R"("xbcx")", R"("b\"c")"}, {R"("bxc")", R"("b"c")"}},
      {R"({"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"],"type":"object"},
                    {"properties":{"k":{"const":"b"}},"required":["k"],"type":"object"}]})",
       {R"({"k":"a","x":1})", R"({"k":"b"})"},
       {R"({"k":"a"})", R"({"k":"b","x":1})"}},
      {R"({"allOf":[{"$ref":"#/$defs/base"},{"properties":{"b":{"minimum":3}},"required":["b"]}],
           "$defs":{"base":{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"integer","maximum":4}}}}})",
       {R"({"b":3})", R"({"a":null,"b":4})"},
       {R"({"b":2})", R"({"b":5})", R"({"a":null})"}},
      {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},
           "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}})",
       {R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1,"next":{"v":2}})"}},
      {R"({"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}}})",
       {R"({"kids":[{"kids":[]}, {}]})"},
       {R"({"kids":[1]})"}},
      {R"({"format":"date"})",
       {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"", "\"2023-02-30\""}},
      {R"({"format":"date-time"})",
       {"\"2024-06-30T23:59:59.5Z\"", "\"2024-06-30T00:00:00+01:30\""},
       {"\"2024-06-30T24:00:00Z\"", "\"2024-06-30\""}},
      {R"({"format":"uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\""}},
      {R"({"format":"email"})", {"\"a.b@c.de\""}, {"\"a@b\"", "\"@c.de\""}},
      {R"({"format":"ipv4"})", {"\"255.0.10.199\""}, {"\"256.0.0.1\"", "\"01.0.0.1\""}},
      {R"({"format":"duration"})", {"\"P1Y2M3DT4H\"", "\"PT5S\"", "\"P3W\""}, {"\"P\"", "\"PT\"", "\"P1S\""}},
      {R"({"format":"uri"})", {"\"https://a.b:80/c?d#e\""}, {"\"a b\""}},
      {R"({"type":"number"})",
       {"0", "-0", "1.50", "2E+10", "123456789012345678901234567890"},
       {"1e999", ".5", "+1", "1e"}},
      {R"({"type":["integer","number"]})", {"0.5"}, {}},
      {R"({"title":"t","description":"d","default":1,"examples":[2],"type":"boolean"})", {"true", "false"}, {"0"}},
      {R"({"type":"object","required":["z"],"additionalProperties":{"type":"integer"}})",
       {R"({"z":1})", R"({"z":1,"a":2})"},
       {R"({"a":2})", R"({"z":"1"})"}},
      {R"(true)", {"{}", "0"}, {"nul"}}};
  for (const SchemaCase& one : kCases) {
    SCOPED_TRACE(one.schema);
    Language language(compile_json_schema(one.schema));
    for (const char* text : one.valid) EXPECT_TRUE(language.accepts(text)) << text;
    for (const char* text : one.invalid) EXPECT_FALSE(language.accepts(text)) << text;
  }
  Language object(json_object_grammar());
  EXPECT_TRUE(object.accepts(R"({"a":[{"b":{}}, -1.5]})"));
  EXPECT_FALSE(object.accepts("[1]"));
}

TEST(SchemaLanguage, NamesWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"properties":{"a/b":{"type":"integer","multipleOf":2}}})", "'/properties/a~1b/multipleOf': this keyword"},
      {R"({"type":"array","uniqueItems":true})", "'/uniqueItems'"},
      {R"({"$defs":{"x":{"not":{}}},"items":{"$ref":"#/$defs/x"}})", "'/$defs/x/not'"},
      {R"({"anyOf":[{"type":"integer"},{"if":{}}]})", "'/anyOf/1/if'"},
      {R"({"allOf":[{"minProperties":1}]})", "'/minProperties'"},
      {R"({"patternProperties":{}})", "'/patternProperties'"},
      {R"({"items":[{}]})", "'/items': neither an object"},
      {R"({"format":"hash"})", "'/format': format 'hash'"},
      {R"({"type":"string","pattern":"a","maxLength":3})", "'/pattern': together with"},
      {R"-({"pattern":"(?=a)"})-", "'/pattern': regular expression: look-around"},
      {R"({"type":"strin"})", "'/type'"},
      {R"({"type":3})", "'/type'"},
      {R"({"minLength":-1})", "'/minLength'"},
      {R"({"minLength":"x"})", "'/minLength'"},
      {R"({"minimum":"x"})", "'/minimum'"},
      {R"({"properties":[]})", "'/properties'"},
      {R"({"required":"a"})", "'/required'"},
      {R"({"required":[1]})", "'/required'"},
      {R"({"enum":3})", "'/enum'"},
      {R"({"enum":["a"],"minLength":3})", "'/minLength': beside enum"},
      {R"({"anyOf":[]})", "'/anyOf'"},
      {R"({"$ref":"#/nowhere"})", "nothing is at '#/nowhere'"},
      {R"({"$ref":"http://x/y"})", "another document"},
      {R"({"$ref":3})", "'/$ref'"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "'/oneOf': schemas 0 and 1"},
      {R"({"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]})", "'/oneOf'"},
      {R"({"properties":{"a":{"$id":"http://x"}}})", "'/properties/a/$id'"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "two different 'pattern'"},
      {R"({"allOf":[{"type":"string"},{"type":"null"}]})", "no text matches"},
      {R"({"$ref":"#"})", "no text matches"},
      {R"({"allOf":[{"$ref":"#"}],"type":"string"})", "in a circle"},
      {R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})", "no text matches"},
      {R"(false)", "no text matches"},
      {R"({"enum":[]})", "no text matches"},
      {R"({"minLength":3,"maxLength":2,"type":"string"})", "no text matches"},
      {R"([])", "neither an object"},
      {R"({"a":)", "JSON Schema"}};
  for (const auto& [schema, words] : kCases) {
    const auto automaton = compile_automaton({Kind::kJsonSchema, schema});
    ASSERT_FALSE(automaton.ok()) << schema;
    EXPECT_NE(automaton.status().message().find(words), std::string::npos)
        << schema << ": " << automaton.status().message();
  }
}

TEST(Choices, ManyAreCheapAndBadOnesAreNamed) {
  Json list = Json::array();
  for (int i = 0; i < 100'000; ++i) list.push_back("choice number " + std::to_string(i * 7));
  const auto begin = std::chrono::steady_clock::now();
  auto automaton = compile_automaton({Kind::kChoice, dump_json(list)});
  ASSERT_TRUE(automaton.ok()) << automaton.status().message();
  Matcher matcher(*automaton);
  EXPECT_TRUE(matcher.may_end(matcher.read(matcher.start(), "choice number 7")));
  EXPECT_FALSE(matcher.may_end(matcher.read(matcher.start(), "choice number 8")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  for (const char* bad : {"[]", "{}", "[1]", "[\"a\",\"\"]", "x"}) {
    EXPECT_FALSE(compile_automaton({Kind::kChoice, bad}).ok()) << bad;
  }
}

// Each is refused or compiled in bounded time, and read in bounded time.
TEST(Hostile, DescriptionsAreBounded) {
  std::string deep_regex, deep_schema, deep_json, chain = "root ::= r0\n", optional = "{\"properties\":{";
  for (int i = 0; i < 5000; ++i) deep_regex += "(";
  for (int i = 0; i < 300; ++i) deep_schema += "{\"items\":";
  for (int i = 0; i < 60'000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  chain += "r60000 ::= \"a\"\n";
  for (int i = 0; i < 8000; ++i) optional += (i ? ",\"p" : "\"p") + std::to_string(i) + "\":{}";
  Json values = Json::array();
  for (int i = 0; i < 300'000; ++i) values.push_back(i);
  std::string doubling = "{\"$defs\":{\"d0\":{\"type\":\"string\"}";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "{\"$ref\":\"#/$defs/d" + std::to_string(i - 1) + "\",\"minLength\":1}";
    doubling += ",\"d" + std::to_string(i) + "\":{\"anyOf\":[" + before + "," + before + "]}";
  }
  const std::vector<std::pair<Kind, std::string>> kCases = {
      {Kind::kRegex, "(((a{1,1000}){1,1000}){1,1000})"},
      {Kind::kRegex, "((a{1,1000}b?){1,1000}c?){1,1000}"},
      {Kind::kRegex, "(a*)*(a*)*(a*)*b"},
      {Kind::kRegex, "(a|aa|aaa|aaaa)*" + std::string(2000, 'a')},
      {Kind::kRegex, "(.*a){30}"},
      {Kind::kRegex, "(((.{0,1000}){0,1000}){0,1000}x){0,1000}"},
      {Kind::kRegex, "((a?){1000}){1000}"},
      {Kind::kRegex, deep_regex},
      {Kind::kJsonSchema, deep_schema},
      {Kind::kJsonSchema, optional + "}}"},
      {Kind::kJsonSchema, dump_json({{"enum", values}})},
      {Kind::kJsonSchema, doubling + "},\"$ref\":\"#/$defs/d39\"}"},
      {Kind::kJsonSchema,
       "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"maxItems\":1000000},\"minItems\":999999}"},
      {Kind::kGrammar, chain},
      {Kind::kGrammar, "root ::= " + std::string(100'000, '(')},
      {Kind::kGrammar, "root ::= \"a\" (root root | root root root)? \"b\"?"},
      {Kind::kGrammar, std::string(2 << 20, '#')}};
  for (const auto& [kind, text] : kCases) {
    SCOPED_TRACE(text.substr(0, 60));
    const auto begin = std::chrono::steady_clock::now();
    auto automaton = compile_automaton({kind, text});
    if (automaton.ok()) {
      Matcher matcher(*automaton);
      StateId state = matcher.start();
      for (int i = 0; i < 200 && state != Matcher::kDead && matcher.work() < 20'000'000; ++i) {
        state = matcher.step(state, 'a');
      }
    } else {
      EXPECT_FALSE(automaton.status().message().empty());
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }
}

}  // namespace
}  // namespace firstlight::text::grammar
