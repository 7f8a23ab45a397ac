// SPDX-License-Identifier: Apache-2.0
// Whatever tokens a mask lets through, at random, in every shipped format: the answer is read as calls of the tools
// that were asked for, with arguments of their schemas, or as text of the constraint, behind thoughts if there are any.
#include "text/chat/answer_structure.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/json.h"
#include "text/chat/call_frames.h"
#include "text/chat/chat_parser.h"
#include "text/grammar/token_mask.h"

namespace firstlight::text {
namespace {

using grammar::ConstraintSpec;

constexpr int32_t kBytes = 256;
constexpr size_t kMostTokens = 20'000;

const Json& tools() {
  static const Json kTools = parse_json(R"([
    {"type": "function", "function": {"name": "get-weather", "parameters": {"type": "object", "properties": {
      "city": {"type": "string", "maxLength": 12}, "note": {"$ref": "#/$defs/note"}, "again": {"$ref": "#/properties/days"},
      "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "unit": {"enum": ["c", "f<", null]},
      "days": {"type": "integer", "minimum": 1, "maximum": 7}, "on": {"type": "string", "format": "date"},
      "where": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "number"}}, "required": ["y"]},
      "tags": {"type": "array", "items": {"type": ["string", "boolean"]}, "maxItems": 3}},
      "required": ["city", "days"], "$defs": {"note": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "now"}},
    {"type": "function", "function": {"name": "f.g", "parameters": {"type": "object", "properties": {
      "code": {"type": "string"}, "yes": {"type": "boolean"}}, "required": ["code"], "additionalProperties": false}}}])")
                                 .value();
  return kTools;
}

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// The bytes and the format's marks ("<…>", "[…]"), as control tokens or as text; the last token ends outputs.
Tokenizer vocabulary(const ChatFormat& format, bool as_control) {
  std::string all;
  for (const ThinkingMarks& marks : format.thinking) all += marks.open + " " + marks.close + " ";
  for (const std::string& one : {format.text_begin, format.text_end, format.before_calls, format.after_thinking})
    all += one;
  if (format.calls) {
    for (const std::string& one : format.calls->begin) all += one;
    for (const std::string& one : format.calls->end) all += one;
    all += format.calls->calls.front().source + " " + (format.calls->parameter ? format.calls->parameter->source : "");
    all += " " + format.calls->quote;
  }
  std::set<std::string> marks;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t end = all[i] == '<' ? all.find('>', i) : all[i] == '[' ? all.find(']', i) : std::string::npos;
    if (end == std::string::npos) continue;
    const std::string mark = all.substr(i, end + 1 - i);
    if (mark.find_first_of(" {\n") == std::string::npos && mark.size() > 2) marks.insert(mark);
  }
  std::string ranks;
  int id = 0;
  const auto add = [&](const std::string& bytes) { ranks += base64(bytes) + " " + std::to_string(id++) + "\n"; };
  for (int byte = 0; byte < kBytes; ++byte) add(std::string(1, static_cast<char>(byte)));
  TiktokenSpec spec;
  spec.pattern = "[\\s\\S]";
  for (const std::string& mark : marks) {
    if (!as_control) {
      add(mark);
    } else {
      spec.special_tokens.emplace_back(mark, id++);
    }
  }
  spec.special_tokens.emplace_back("<the end>", id);
  auto made = load_tiktoken(ranks, spec);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

// One of the outputs that the structure allows; "" and a failure where something is wrong on the way.
std::string any_output(const Tokenizer& tokenizer, const grammar::Constraint& constraint, uint32_t seed) {
  std::mt19937 random(seed);
  const auto mask = constraint.make_mask();
  const int32_t end = tokenizer.vocab_size() - 1;
  mask->set_stop_tokens(std::vector<int32_t>{end});
  std::vector<uint8_t> allowed;
  std::vector<int32_t> ids;
  while (!mask->is_over() && ids.size() < kMostTokens) {
    allowed.assign(static_cast<size_t>(end) + 1, 1);
    const Status status = mask->apply(allowed);
    EXPECT_TRUE(status.ok()) << status.message() << " after " << tokenizer.decode(ids, {.skip_special = false});
    if (!status.ok()) return "";
    std::vector<int32_t> may, hasty;  // all, and those that bring an end nearer
    for (int32_t id = 0; id <= end; ++id) {
      if (!allowed[static_cast<size_t>(id)]) continue;
      may.push_back(id);
      if (id >= kBytes || id == '"' || id == '}' || id == ']' || id == ')' || id == '\n') hasty.push_back(id);
    }
    const std::vector<int32_t>& from = !hasty.empty() && random() % 4 == 0 ? hasty : may;
    const int32_t token = from[random() % from.size()];
    if (token == end) break;
    mask->accept(token);
    ids.push_back(token);
  }
  EXPECT_LT(ids.size(), kMostTokens);
  return tokenizer.decode(ids, {.skip_special = false});
}

struct Read {
  std::string content, thoughts;
  std::vector<std::pair<std::string, std::string>> calls;
  bool all_ended = true;
};

Read read(const ChatFormat& format, std::string_view prompt, const std::string& output) {
  const auto shared = std::make_shared<const ChatFormat>(format);
  ChatParser parser(shared, std::make_shared<const ToolSet>(tools()), {.calls = true});
  parser.continue_from(format.open_end(prompt));
  std::vector<ChatPart> parts = parser.push(output);
  for (ChatPart& part : parser.finish(true)) parts.push_back(std::move(part));
  Read out;
  size_t ended = 0;
  for (const ChatPart& part : parts) {
    if (part.kind == ChatPart::Kind::kContent) out.content += part.text;
    if (part.kind == ChatPart::Kind::kReasoning) out.thoughts += part.text;
    if (part.kind == ChatPart::Kind::kCall) out.calls.emplace_back(part.text, "");
    if (part.kind == ChatPart::Kind::kArguments) out.calls.back().second += part.text;
    ended += part.kind == ChatPart::Kind::kCallEnd ? 1 : 0;
  }
  out.all_ended = ended == out.calls.size();
  return out;
}

bool is_of(const Json& schema, const std::string& document) {
  const auto automaton = grammar::compile_automaton({ConstraintSpec::Kind::kJsonSchema, dump_json(schema)});
  EXPECT_TRUE(automaton.ok()) << automaton.status().message();
  grammar::Matcher matcher(*automaton);
  return matcher.may_end(matcher.read(matcher.start(), document));
}

class AnswerStructure : public testing::Test {
 protected:
  const std::vector<ChatFormatFile> files_ = shipped_chat_formats().value();
  const ToolSet set_{tools()};

  const ChatFormat& format(const std::string& name) const {
    const auto found = std::find_if(files_.begin(), files_.end(), [&](const auto& f) { return f.format.name == name; });
    EXPECT_NE(found, files_.end()) << name;
    return found->format;
  }

  std::vector<std::string> outputs(const ChatFormat& format, std::string_view prompt, Json text, Json calls,
                                   bool as_control, uint32_t count) const {
    const Tokenizer tokenizer = vocabulary(format, as_control);
    grammar::ConstraintCompiler compiler(tokenizer);
    const Json structure = answer_structure(format, prompt, std::move(text), std::move(calls));
    const auto constraint = compiler.compile({ConstraintSpec::Kind::kStructure, dump_json(structure)});
    EXPECT_TRUE(constraint.ok()) << constraint.status().message();
    std::vector<std::string> out;
    for (uint32_t seed = 0; constraint.ok() && seed < count; ++seed) {
      out.push_back(any_output(tokenizer, **constraint, seed));
    }
    return out;
  }

  void check_calls(const Read& answer) const {
    EXPECT_EQ(answer.content, "");
    EXPECT_TRUE(answer.all_ended);
    for (const auto& [name, arguments] : answer.calls) {
      const auto document = parse_json(arguments);
      ASSERT_TRUE(document.ok()) << arguments;
      Json schema = set_.parameters(name);
      if (schema.is_null()) schema = {{"type", "object"}, {"additionalProperties", false}};
      EXPECT_TRUE(is_of(schema, dump_json(*document))) << name << arguments;
    }
  }
};

TEST_F(AnswerStructure, EveryOutputIsCalls) {
  for (const ChatFormatFile& file : files_) {
    if (!file.format.calls) continue;
    const auto several = call_structure(*file.format.calls, set_, set_.names(), false);
    ASSERT_TRUE(several.ok()) << file.format.name << ": " << several.status().message();
    const auto one = call_structure(*file.format.calls, set_, {"get-weather"}, true);
    std::set<std::string> names;
    size_t most = 0;
    for (const bool as_control : {true, false}) {
      SCOPED_TRACE(file.format.name + (as_control ? ", control tokens" : ", text"));
      for (const std::string& output : outputs(file.format, "", Json(), *several, as_control, 12)) {
        SCOPED_TRACE(output.substr(0, 400));
        const Read answer = read(file.format, "", output);
        EXPECT_GE(answer.calls.size(), 1u);
        check_calls(answer);
        most = std::max(most, answer.calls.size());
        for (const auto& [name, unused] : answer.calls) names.insert(name);
      }
      for (const std::string& output : outputs(file.format, "", Json(), *one, as_control, 4)) {
        SCOPED_TRACE(output.substr(0, 400));
        const Read answer = read(file.format, "", output);
        ASSERT_EQ(answer.calls.size(), 1u);
        EXPECT_EQ(answer.calls[0].first, "get-weather");
        check_calls(answer);
      }
    }
    EXPECT_EQ(names.size(), 3u) << file.format.name;
    EXPECT_GE(most, 2u) << file.format.name;
  }
}

// Opened by the prompt, by the model or not at all; closed by the prompt.
TEST_F(AnswerStructure, ThoughtsStayFree) {
  const Json text = {{"regex", "[0-9]{3}"}};
  for (const char* name : {"think", "harmony", "kimi_k3", "apertus", "gemma4", "command_r7b", "deepseek_dsml"}) {
    ChatFormat format = this->format(name);
    format.thinking.resize(1);
    const ThinkingMarks marks = format.thinking[0];
    const std::string begin = name == std::string("harmony") ? "<|start|>assistant" : "<|assistant|>\n";
    for (const bool as_control : {true, false}) {
      SCOPED_TRACE(std::string(name) + (as_control ? ", control tokens" : ", text"));
      for (const std::string& output : outputs(format, begin + marks.open + "\n", text, Json(), as_control, 6)) {
        SCOPED_TRACE(output.substr(0, 400));
        EXPECT_NE(output.find(marks.close), std::string::npos);
        EXPECT_TRUE(is_of({{"pattern", "^[0-9]{3}$"}}, '"' + read(format, marks.open, output).content + '"'));
      }
      size_t thought = 0;
      for (const std::string& output : outputs(format, begin, text, Json(), as_control, 24)) {
        SCOPED_TRACE(output.substr(0, 400));
        EXPECT_TRUE(is_of({{"pattern", "^[0-9]{3}$"}}, '"' + read(format, begin, output).content + '"'));
        thought += output.find(marks.close) == std::string::npos ? 0 : 1;
      }
      EXPECT_GT(thought, 0u);
      EXPECT_LT(thought, 24u);
      for (const std::string& output :
           outputs(format, marks.open + "\n\n" + marks.close + "\n\n", text, Json(), as_control, 6)) {
        EXPECT_EQ(output.find(marks.open), std::string::npos) << output;
      }
    }
  }
}

TEST_F(AnswerStructure, TextOrCalls) {
  for (const char* name : {"hermes", "harmony", "kimi_k3", "command_r7b", "mistral_args", "qwen3_coder"}) {
    const ChatFormat& format = this->format(name);
    const Json calls = call_structure(*format.calls, set_, {"now"}, true).value();
    const std::string prompt = format.prompt_end.empty() ? "" : format.prompt_end.front();
    size_t num_calls = 0, num_texts = 0;
    for (const std::string& output : outputs(format, prompt, {{"choice", R"(["yes", "no"])"}}, calls, true, 24)) {
      SCOPED_TRACE(std::string(name) + ": " + output.substr(0, 400));
      const Read answer = read(format, prompt, output);
      num_calls += answer.calls.size();
      num_texts += answer.content.empty() ? 0 : 1;
      EXPECT_EQ(answer.content.empty(), !answer.calls.empty());
      EXPECT_TRUE(answer.content.empty() || answer.content == "yes" || answer.content == "no");
    }
    EXPECT_GT(num_calls, 0u) << name;
    EXPECT_GT(num_texts, 0u) << name;
  }
}

TEST_F(AnswerStructure, WhatCannotBeHeldToIsRefused) {
  const auto structure = [&](const char* name, const char* schema) {
    const Json tool = {{"name", "f"}, {"parameters", parse_json(schema).value()}};
    return call_structure(*format(name).calls, ToolSet(Json::array({tool})), {"f"}, true);
  };
  EXPECT_EQ(call_structure(*format("hermes").calls, set_, {"g"}, true).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(structure("hermes", R"({"anyOf": [{"type": "object"}]})").ok());
  EXPECT_EQ(structure("glm", R"({"anyOf": [{"type": "object"}]})").code(), StatusCode::kUnsupported);
  EXPECT_EQ(structure("glm", R"({"properties": {"a b": {}}})").code(), StatusCode::kUnsupported);
  EXPECT_EQ(structure("glm", R"({"properties": {"a": {"minLength": 3}}})").code(), StatusCode::kUnsupported);
  EXPECT_EQ(structure("olmo3", R"({"properties": {"a": {}}, "required": ["b"]})").code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace firstlight::text
