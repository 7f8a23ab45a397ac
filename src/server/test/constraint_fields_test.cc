// SPDX-License-Identifier: Apache-2.0
// The fields that constrain the output, from a body to a mask that a request carries; faults name the field.
#include "server/constraint_fields.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "server/openai_api.h"
#include "server/prompt.h"
#include "server/test/fake_model.h"

namespace firstlight::server {
namespace {

using Kind = text::grammar::ConstraintSpec::Kind;

ApiError parse(const std::string& fields, ApiRequest& request) {
  return parse_request(Endpoint::kCompletions, R"({"prompt": "x", )" + fields + "}", {}, {}, request);
}

TEST(ConstraintFields, EveryNameIsRead) {
  struct Case {
    const char* fields;
    Kind kind;
    const char* text;
    const char* field;
  };
  const Case kCases[] = {
      {R"("response_format": {"type": "json_object"})", Kind::kJsonObject, "", "response_format"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"b":1,"a":2}}})",
       Kind::kJsonSchema, R"({"b":1,"a":2})", "response_format.json_schema.schema"},
      {R"("structured_outputs": {"json": {"type": "null"}})", Kind::kJsonSchema, R"({"type":"null"})",
       "structured_outputs.json"},
      {R"("structured_outputs": {"json": "{}"})", Kind::kJsonSchema, "{}", "structured_outputs.json"},
      {R"("structured_outputs": {"regex": "a+"})", Kind::kRegex, "a+", "structured_outputs.regex"},
      {R"("structured_outputs": {"choice": ["a", "b"], "json": null})", Kind::kChoice, R"(["a","b"])",
       "structured_outputs.choice"},
      {R"("structured_outputs": {"grammar": "root ::= \"a\""})", Kind::kGrammar, "root ::= \"a\"",
       "structured_outputs.grammar"},
      {R"("structured_outputs": {"json_object": true})", Kind::kJsonObject, "", "structured_outputs.json_object"},
      {R"("guided_json": true)", Kind::kJsonSchema, "true", "guided_json"},
      {R"("guided_regex": "b")", Kind::kRegex, "b", "guided_regex"},
      {R"("guided_choice": ["a"])", Kind::kChoice, R"(["a"])", "guided_choice"},
      {R"("guided_grammar": "g")", Kind::kGrammar, "g", "guided_grammar"},
      {R"("grammar": "g", "response_format": {"type": "text"}, "guided_json": null)", Kind::kGrammar, "g", "grammar"}};
  for (const Case& one : kCases) {
    ApiRequest request;
    const ApiError error = parse(one.fields, request);
    ASSERT_TRUE(error.ok()) << one.fields << ": " << error.message;
    ASSERT_TRUE(request.constraint) << one.fields;
    EXPECT_EQ(request.constraint->kind, one.kind) << one.fields;
    EXPECT_EQ(request.constraint->text, one.text);
    EXPECT_EQ(request.constraint_field, one.field);
  }
  ApiRequest free;
  EXPECT_TRUE(parse(R"("response_format": {"type": "text"}, "structured_outputs": null)", free).ok());
  EXPECT_FALSE(free.constraint);
}

TEST(ConstraintFields, FaultsNameTheField) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("response_format": "json")", "response_format"},
      {R"("response_format": {"type": "xml"})", "response_format.type"},
      {R"("response_format": {})", "response_format.type"},
      {R"("response_format": {"type": "json_schema"})", "response_format.json_schema"},
      {R"("response_format": {"type": "json_schema", "json_schema": {}})", "response_format.json_schema.schema"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}, "odd": 1}})",
       "response_format.json_schema.odd"},
      {R"("response_format": {"type": "json_object", "schema": {}})", "response_format.schema"},
      {R"("structured_outputs": [])", "structured_outputs"},
      {R"("structured_outputs": {})", "structured_outputs"},
      {R"("structured_outputs": {"regex": 3})", "structured_outputs.regex"},
      {R"("structured_outputs": {"structural_tag": "x"})", "structured_outputs.structural_tag"},
      {R"("structured_outputs": {"regex": "a", "choice": ["b"]})", "structured_outputs.choice"},
      {R"("guided_regex": "a", "guided_json": {})", "guided_regex"},
      {R"("guided_regex": "")", "guided_regex"},
      {R"("guided_choice": "a")", "guided_choice"},
      {R"("guided_json": [])", "guided_json"},
      {R"("guided_regex": "a", "ignore_eos": true)", "ignore_eos"}};
  for (const auto& [fields, name] : kCases) {
    ApiRequest request;
    const ApiError error = parse(fields, request);
    EXPECT_EQ(error.http_status, 400) << fields;
    EXPECT_EQ(error.param, name) << fields;
  }
  for (const auto& [fields, name] :
       {std::pair(R"("tool_choice": "required", "ignore_eos": true)", "ignore_eos"),
        std::pair(R"("tool_choice": "required", "continue_final_message": true)", "continue_final_message")}) {
    ApiRequest chat;
    const std::string body =
        R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f"}}], )";
    EXPECT_EQ(parse_request(Endpoint::kChat, body + fields + "}", {}, {}, chat).param, name);
  }
}

TEST(ConstraintFields, WhatDoesNotCompileIsARefusalWithTheField) {
  text::grammar::ConstraintCompiler compiler(fake::tokenizer());
  for (const auto& [fields, name] : {
           std::pair(R"("guided_regex": "(a")", "guided_regex"),
           std::pair(R"("guided_choice": [])", "guided_choice"),
           std::pair(R"("guided_grammar": "root ::= x")", "guided_grammar"),
           std::pair(R"("structured_outputs": {"json": {"not": {}}})", "structured_outputs.json"),
       }) {
    ApiRequest request;
    ASSERT_TRUE(parse(fields, request).ok()) << fields;
    std::vector<PreparedPrompt> prompts(1);
    const ApiError error = compile_constraints(compiler, request, prompts);
    EXPECT_EQ(error.http_status, 400) << fields;
    EXPECT_EQ(error.param, name);
    EXPECT_TRUE(error.message.starts_with(std::string(name) + ": ")) << error.message;
    EXPECT_EQ(prompts[0].constraint, nullptr);
  }
  std::vector<PreparedPrompt> prompts(2);
  ApiRequest free;
  EXPECT_TRUE(parse(R"("stream": false)", free).ok());
  EXPECT_TRUE(compile_constraints(compiler, free, prompts).ok());
  EXPECT_EQ(prompts[0].constraint, nullptr);
  ApiRequest good;
  ASSERT_TRUE(parse(R"("guided_regex": "ab")", good).ok());
  ASSERT_TRUE(compile_constraints(compiler, good, prompts).ok());
  EXPECT_EQ(prompts[0].constraint, prompts[1].constraint);
  const auto mask = prompts[0].constraint->make_mask();
  std::vector<uint8_t> allowed(fake::kVocab, 1);
  ASSERT_TRUE(mask->apply(allowed).ok());
  EXPECT_EQ(std::count(allowed.begin(), allowed.end(), 1), 1);
  EXPECT_EQ(allowed['a'], 1);
}

// What an answer may begin with, as a mask says it.
TEST(ConstraintFields, AChatIsHeldToItBehindThoughtsOrToCalls) {
  text::grammar::ConstraintCompiler compiler(fake::tokenizer());
  static const auto files = text::shipped_chat_formats().value();
  const auto profile_of = [&](const std::string& name) {
    const auto found =
        std::find_if(files.begin(), files.end(), [&](const auto& file) { return file.format.name == name; });
    text::ChatFormat format = text::forced_chat_format(*found, files, {"<think>", nullptr});
    format.thinking.resize(std::min<size_t>(format.thinking.size(), 1));
    return make_chat_profile(std::move(format), fake::tokenizer());
  };
  const auto begins = [&](const std::string& format, const std::string& fields, std::string_view prompt_end = "") {
    ApiRequest request;
    const std::string body = R"({"messages": [{"role": "user", "content": "x"}], )";
    ApiError error = parse_request(Endpoint::kChat, body + fields + "}", {}, {}, request);
    std::vector<PreparedPrompt> prompts(1);
    const auto profile = format.empty() ? nullptr : profile_of(format);
    if (error.ok()) error = frame_answer(profile.get(), request, prompt_end, prompts[0].frame);
    if (error.ok()) error = compile_constraints(compiler, request, prompts);
    if (!error.ok()) return error.param + ": " + error.message;
    std::string out;
    for (const char c : std::string_view("ab<{[\n")) {
      std::vector<uint8_t> allowed(fake::kVocab, 1);
      if (prompts[0].constraint && !prompts[0].constraint->make_mask()->apply(allowed).ok()) return std::string("?");
      if (allowed[static_cast<unsigned char>(c)]) out += c;
    }
    return out;
  };
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function",
      "function": {"name": "g", "parameters": {"type": "object", "properties": {"x": {"multipleOf": 2}}}}}])";
  EXPECT_EQ(begins("", R"("guided_regex": "ab")"), "a");
  EXPECT_EQ(begins("think", R"("guided_regex": "ab")"), "a<") << "thoughts, or none";
  EXPECT_EQ(begins("think", R"("guided_regex": "ab")", "x<think>\n"), "ab<{[\n") << "the thought goes on";
  EXPECT_EQ(begins("think", R"("guided_regex": "ab")", "<think>\n\n</think>\n\n"), "a");
  EXPECT_EQ(begins("mistral", tools), "ab<{[\n") << "auto: nothing is held to anything";
  const std::string named = R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})";
  EXPECT_EQ(begins("mistral", tools + named, "</think>"), "[");
  EXPECT_EQ(begins("mistral", tools + named), "<[");
  const std::string allowed = R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required",
      "tools": [{"type": "function", "function": {"name": "f"}}]}})";
  EXPECT_EQ(begins("mistral", tools + allowed, "</think>"), "[");
  EXPECT_EQ(begins("mistral", R"("tools": [{"type": "function", "function": {"name": "f"}}], "guided_regex": "ab")",
                   "</think>"),
            "a[")
      << "text or calls";
  const std::string bad = begins("mistral", tools + R"(, "tool_choice": "required")");
  EXPECT_TRUE(bad.starts_with("tools[1].function.parameters: ") && bad.find("multipleOf") != std::string::npos) << bad;
  const auto two = [](const std::string& one, const std::string& other) {
    const std::string f = R"({"type": "function", "function": {"name": ")", p = R"(", "parameters": )";
    return R"("tools": [)" + f + "f" + p + one + "}}, " + f + "g" + p + other + "}}]";
  };
  const std::string none = R"({"type": "object", "properties": {"x": false}, "required": ["x"]})";
  const std::string required = R"(, "tool_choice": "required")";
  const std::string g = R"("tools": [{"type": "function", "function": {"name": "g"}}]}})";
  const std::string one_g = R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", )" + g;
  EXPECT_EQ(begins("mistral", two("{}", none) + one_g).find("tools[1].function.parameters: tools[1].function"), 0u);
  EXPECT_EQ(begins("mistral", two(none, none) + required).find("tools[0].function.parameters: tools[0].function"), 0u);
  EXPECT_EQ(begins("mistral", two("{}", none) + required, "</think>"), "[") << "the other one can be called";
  EXPECT_TRUE(begins("think", tools + named).starts_with("tool_choice: "));
  EXPECT_TRUE(begins("think", tools + R"(, "guided_regex": "ab")").starts_with("tools: "));
}

}  // namespace
}  // namespace firstlight::server
