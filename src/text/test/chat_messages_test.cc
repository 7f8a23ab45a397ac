// SPDX-License-Identifier: Apache-2.0
#include "text/chat_messages.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace firstlight::text {
namespace {

std::string normalized(const std::string& messages, const MessageForm& form = {}) {
  const auto out = normalize_messages(parse_json(messages).value(), form);
  return out.ok() ? dump_json(*out) : out.status().to_string();
}

TEST(ChatMessages, NullAbsentAndEmptyContentAreTheSame) {
  const std::string want = R"([{"role":"user","content":""}])";
  EXPECT_EQ(normalized(R"([{"role":"user","content":null}])"), want);
  EXPECT_EQ(normalized(R"([{"role":"user"}])"), want);
  EXPECT_EQ(normalized(R"([{"role":"user","content":[]}])"), want);
  EXPECT_EQ(normalized(R"([{"role":"user","content":""}])"), want);
}

TEST(ChatMessages, CallsWithoutContentTakeTheTemplatesForm) {
  const std::string message =
      R"([{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}])";
  EXPECT_EQ(normalized(message, {.null_content_for_calls = true}),
            R"([{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}])");
  EXPECT_EQ(normalized(message, {.string_arguments = true}),
            R"([{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}])");
}

TEST(ChatMessages, ArgumentsAreDecodedOnce) {
  const auto arguments = [](const std::string& given, const MessageForm& form = {}) {
    return normalized(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":)" + given + "}}]}]",
                      form);
  };
  EXPECT_NE(arguments(R"("{\"a\": \"{\\\"b\\\": 1}\"}")").find(R"("arguments":{"a":"{\"b\": 1}"})"), std::string::npos);
  EXPECT_NE(arguments(R"({"a":1})").find(R"("arguments":{"a":1})"), std::string::npos);
  EXPECT_NE(arguments(R"({"a":1})", {.string_arguments = true}).find(R"("arguments":"{\"a\":1}")"), std::string::npos);
  EXPECT_NE(arguments("\"\"").find(R"("arguments":{})"), std::string::npos);
  EXPECT_NE(arguments("\"[1\"").find("invalid argument: messages[0]: tool call arguments"), std::string::npos);
  EXPECT_NE(arguments("\"[1]\"").find("must be a JSON object"), std::string::npos);
}

TEST(ChatMessages, PartsBecomeTextWhereTheTemplateTakesText) {
  const std::string parts = R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])";
  EXPECT_EQ(normalized(parts), R"([{"role":"user","content":"a\nb"}])");
  EXPECT_EQ(normalized(parts, {.part_content = true}), parts);
  EXPECT_EQ(normalized(R"([{"role":"user","content":"a"}])", {.text_content = false, .part_content = true}),
            R"([{"role":"user","content":[{"type":"text","text":"a"}]}])");
  EXPECT_NE(normalized(R"([{"role":"user","content":[{"type":"image_url"}]}])").find("'image_url'"), std::string::npos);
}

TEST(ChatMessages, ThoughtsAreFoundUnderEveryName) {
  EXPECT_EQ(normalized(R"([{"role":"assistant","content":"x","reasoning":"r"}])"),
            R"([{"role":"assistant","content":"x","reasoning":"r","reasoning_content":"r","thinking":"r"}])");
}

TEST(ChatMessages, MalformedMessagesAreNamed) {
  EXPECT_NE(normalized("{}").find("must be an array"), std::string::npos);
  EXPECT_NE(normalized("[1]").find("messages[0]"), std::string::npos);
  EXPECT_NE(normalized(R"([{"content":"x"}])").find("'role'"), std::string::npos);
  EXPECT_NE(normalized(R"([{"role":"user","content":1}])").find("content must be"), std::string::npos);
  EXPECT_NE(normalized(R"([{"role":"assistant","tool_calls":{}}])").find("tool_calls"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::text
