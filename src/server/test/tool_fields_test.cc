// SPDX-License-Identifier: Apache-2.0
// Tools and what is asked about them: each fault with its place, each choice with what may be called.
#include "server/tool_fields.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "server/openai_api.h"

namespace firstlight::server {
namespace {

ApiError parse(const std::string& fields, ApiRequest& request) {
  const std::string body = R"({"messages": [{"role": "user", "content": "x"}], )" + fields + "}";
  return parse_request(Endpoint::kChat, body, {}, {}, request);
}

TEST(ToolFields, FaultsNameTheirPlace) {
  const std::string good = R"({"type": "function", "function": {"name": "f"}})";
  const std::pair<std::string, const char*> kCases[] = {
      {R"("tools": {})", "tools"},
      {R"("tools": [1])", "tools[0]"},
      {R"("tools": [{}])", "tools[0].type"},
      {R"("tools": [{"type": "custom", "custom": {"name": "f"}}])", "tools[0].type"},
      {R"("tools": [{"type": "function"}])", "tools[0].function"},
      {R"("tools": [{"type": "function", "function": "f"}])", "tools[0].function"},
      {R"("tools": [{"type": "function", "function": {}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": 5}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": ""}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "two words"}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": ")" + std::string(65, 'a') + R"("}}])",
       "tools[0].function.name"},
      {"\"tools\": [" + good + ", " + good + "]", "tools[1].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "description": 1}}])",
       "tools[0].function.description"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "strict": 1}}])", "tools[0].function.strict"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}])",
       "tools[0].function.parameters"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}])",
       "tools[0].function.parameters.type"},
      {R"("tools": [{"type": "function", "function": {"name": "f"}}, 3], "tool_choice": "none")", "tools[1]"},
      {R"("tool_choice": "required")", "tool_choice"},
      {R"("tools": [], "tool_choice": "required")", "tool_choice"},
      {"\"tools\": [" + good + R"(], "tool_choice": "any")", "tool_choice"},
      {"\"tools\": [" + good + R"(], "tool_choice": 1)", "tool_choice"},
      {"\"tools\": [" + good + R"(], "tool_choice": {"type": "function"})", "tool_choice.function"},
      {"\"tools\": [" + good + R"(], "tool_choice": {"type": "function", "function": {"name": "g"}})",
       "tool_choice.function.name"},
      {"\"tools\": [" + good + R"(], "tool_choice": {"type": "allowed_tools"})", "tool_choice.allowed_tools"},
      {"\"tools\": [" + good + R"(], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "none"}})",
       "tool_choice.allowed_tools.mode"},
      {"\"tools\": [" + good + R"(], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}})",
       "tool_choice.allowed_tools.tools"},
      {"\"tools\": [" + good + R"(], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
          "tools": [{"type": "function", "function": {"name": "g"}}]}})",
       "tool_choice.allowed_tools.tools[0].function.name"},
      {"\"tools\": [" + good + R"(], "parallel_tool_calls": "no")", "parallel_tool_calls"},
  };
  for (const auto& [fields, name] : kCases) {
    ApiRequest request;
    const ApiError error = parse(fields, request);
    EXPECT_EQ(error.http_status, 400) << fields;
    EXPECT_EQ(error.param, name) << fields;
    EXPECT_NE(error.message.find(name), std::string::npos) << error.message;
  }
}

TEST(ToolFields, ChoicesSayWhatMayBeCalled) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "a.b-c_1", "parameters": null}},
      {"type": "function", "function": {"name": "g", "parameters": {}, "strict": true}}])";
  const auto read = [&](const std::string& choice) {
    ApiRequest request;
    const ApiError error = parse(tools + choice, request);
    EXPECT_TRUE(error.ok()) << error.message;
    return request;
  };
  EXPECT_EQ(read("").tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(read("").tools.size(), 2u);
  EXPECT_EQ(read(R"(, "tool_choice": null)").tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(read(R"(, "tool_choice": "auto")").said_tool_choice, "auto");
  EXPECT_TRUE(read(R"(, "tool_choice": "none")").tools.is_null());
  EXPECT_EQ(read(R"(, "tool_choice": "required")").tool_choice, ToolChoice::kRequired);
  const ApiRequest named = read(R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})");
  EXPECT_EQ(named.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(named.named_tool, "g");
  EXPECT_EQ(named.tools.size(), 2u) << "the prompt has them all";
  for (const char* mode : {"auto", "required"}) {
    const ApiRequest allowed =
        read(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": ")" + std::string(mode) +
             R"(", "tools": [{"type": "function", "function": {"name": "g"}}]}})");
    EXPECT_EQ(allowed.tool_choice == ToolChoice::kRequired, mode == std::string("required"));
    ASSERT_EQ(allowed.tools.size(), 1u);
    EXPECT_EQ(allowed.tools[0]["function"]["name"], "g");
  }
}

}  // namespace
}  // namespace firstlight::server
