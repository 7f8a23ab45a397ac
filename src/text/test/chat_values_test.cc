// SPDX-License-Identifier: Apache-2.0
// The pieces below the parser of answers: patterns, ends of values, loose values, types by a schema.
#include <gtest/gtest.h>

#include "base/json.h"
#include "text/chat/chat_parser.h"
#include "text/chat/loose_value.h"
#include "text/chat/pattern.h"
#include "text/chat/tool_set.h"
#include "text/chat/value_scanner.h"

namespace firstlight::text {
namespace {

Match match(const char* pattern, std::string_view text, bool over, std::string* name = nullptr) {
  Captures captures;
  size_t length = 0;
  const Match result = match_parts(Pattern::parse(pattern).value().head, text, over, captures, length);
  if (name != nullptr) *name = captures[static_cast<size_t>(Hole::kName)];
  return result;
}

TEST(ChatValues, PatternsMatchBeginnings) {
  std::string name;
  EXPECT_EQ(match("<call {name}>{arguments}", "<call  f.g-1>{", false, &name), Match::kYes);
  EXPECT_EQ(name, "f.g-1");
  EXPECT_EQ(match("<call {name}>{arguments}", "<cal", false), Match::kMore);
  EXPECT_EQ(match("<call {name}>{arguments}", "<cal", true), Match::kNo);
  EXPECT_EQ(match("<call {name}>{arguments}", "<call f", false), Match::kMore);
  EXPECT_EQ(match("<call {name}>{arguments}", "<call f g>", false), Match::kNo);
  EXPECT_EQ(match("<call {name}>{arguments}", "<call >", false), Match::kNo);
  EXPECT_EQ(match("a{any}b{arguments}", "a\nb", false), Match::kNo) << "a hole has no line breaks";
  EXPECT_EQ(match("a{any}b{arguments}", "a" + std::string(300, 'x'), false), Match::kNo);
}

TEST(ChatValues, ScannersFindTheEnd) {
  using Style = ValueScanner::Style;
  const struct {
    Style style;
    const char* text;
    size_t size;
  } cases[] = {
      {Style::kJson, R"({"a": "}\"]", "b": [1, {}]} x)", 27},
      {Style::kJson, R"("a\\" x)", 5},
      {Style::kJson, "-1.5e3, 2", 6},
      {Style::kJson, "true}", 4},
      {Style::kPython, R"(['it\'s', ("]",)] x)", 17},
      {Style::kQuoted, "{a:<q>it's } \"<q>} x", 18},
  };
  for (const auto& [style, text, size] : cases) {
    ValueScanner whole(style, "<q>");
    EXPECT_EQ(whole.take(text), size) << text;
    EXPECT_TRUE(whole.done()) << text;
    ValueScanner steps(style, "<q>");  // a character more each time, as from a stream
    size_t taken = 0;
    for (size_t end = 1; end <= std::string_view(text).size() && !steps.done(); ++end) {
      taken += steps.take(std::string_view(text).substr(taken, end - taken));
    }
    EXPECT_EQ(taken, size) << text;
  }
  ValueScanner none;
  none.take(",");
  EXPECT_TRUE(none.failed());
  ValueScanner number;
  number.take("12");
  EXPECT_FALSE(number.done());
  number.take("", true);
  EXPECT_TRUE(number.done());
}

TEST(ChatValues, LooseValuesBecomeJson) {
  const std::pair<const char*, const char*> good[] = {
      {"{'a': [1, True, None], \"b\": (2.5,)}", R"({"a":[1,true,null],"b":[2.5]})"},
      {"'it\\'s\\n\\u00e9\\x41\\ud83d\\ude00\\q'",
       "\"it's\\né"
       "A😀\\\\q\""},
      {"{a:<q>x } \"y<q>,b:{c:false}}", R"({"a":"x } \"y","b":{"c":false}})"},
      {" [] ", "[]"},
  };
  for (const auto& [text, json] : good) {
    const auto value = read_loose_value(text, "<q>");
    ASSERT_TRUE(value.has_value()) << text;
    EXPECT_EQ(dump_json(*value), json);
  }
  for (const char* text : {"", "{", "[1", "[1 2]", "{a 1}", "'x", "<q>x", "nothing", "1 2", "\\", "{:1}"}) {
    EXPECT_FALSE(read_loose_value(text, "<q>").has_value()) << text;
  }
  EXPECT_FALSE(read_loose_value(std::string(100000, '['), "").has_value()) << "bounded depth";
  EXPECT_EQ(dump_json(*read_keyword_arguments("a=1, b='x', ")), R"({"a":1,"b":"x"})");
  EXPECT_EQ(dump_json(*read_keyword_arguments("")), "{}");
  EXPECT_FALSE(read_keyword_arguments("1, 2").has_value());
}

TEST(ChatValues, TypesFollowTheSchema) {
  const ToolSet tools(parse_json(R"([{"type": "function", "function": {"name": "f", "parameters": {
    "properties": {"s": {"type": "string"}, "i": {"type": "integer"}, "u": {"anyOf": [{"type": "number"},
    {"$ref": "#/$defs/e"}]}, "c": {"const": true}, "loop": {"$ref": "#/properties/loop"}, "odd": 3},
    "$defs": {"e": {"enum": ["a", null]}}}}}, {"function": 1}, 2, {"type": "function"}])")
                          .value());
  EXPECT_TRUE(tools.knows("f"));
  EXPECT_FALSE(tools.knows("g"));
  EXPECT_EQ(tools.types("f", "s"), kString);
  EXPECT_EQ(tools.types("f", "u"), kNumber | kString | kNull);
  EXPECT_EQ(tools.types("f", "c"), kBoolean);
  EXPECT_EQ(tools.types("f", "loop"), 0);
  EXPECT_EQ(tools.types("f", "odd"), 0);
  EXPECT_EQ(tools.types("f", "none"), 0);
  const auto value = [](const char* text, int types) {
    return dump_json(typed_value(text, static_cast<TypeSet>(types)));
  };
  EXPECT_EQ(value("12", kString), "\"12\"");
  EXPECT_EQ(value(" 12 ", kInteger), "12");
  EXPECT_EQ(value("12.5", kInteger), "12.5");
  EXPECT_EQ(value("12", kString | kBoolean), "\"12\"");
  EXPECT_EQ(value("null", kString | kNull), "null");
  EXPECT_EQ(value("True", kBoolean), "true");
  EXPECT_EQ(value("{'a': 1}", kObject), R"({"a":1})");
  EXPECT_EQ(value("twelve", kInteger), "\"twelve\"");
  EXPECT_EQ(value("[1]", 0), "[1]");
  EXPECT_EQ(value("\"x\"", 0), R"("\"x\"")");
}

}  // namespace
}  // namespace firstlight::text
