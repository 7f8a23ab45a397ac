// SPDX-License-Identifier: Apache-2.0
// The parser of answers over the examples of data/chat_examples.json: each format's own way of writing, broken and cut
// ones, as a whole, cut in two at every place, and character by character.
#include "text/chat/chat_parser.h"

#include <gtest/gtest.h>

#include "base/file_map.h"
#include "base/json.h"

namespace firstlight::text {
namespace {

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "opts": {"$ref": "#/$defs/o"},
    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "place": {"type": ["string", "array"]}},
    "$defs": {"o": {"type": "object"}}}}},
  {"type": "function", "function": {"name": "calc", "parameters": {"type": "object", "properties": {
    "x": {"type": "number"}, "code": {"type": "string"}}}}},
  {"name": "now"}])";

// The fields of an answer, and the parts' order.
struct Answer {
  std::string content, reasoning;
  std::vector<std::string> names, ids, arguments;
  int64_t ended = 0;
  bool operator==(const Answer& other) const {
    return content == other.content && reasoning == other.reasoning && names == other.names &&
           arguments == other.arguments && ended == other.ended;
  }
  void add(const std::vector<ChatPart>& parts) {
    for (const ChatPart& part : parts) {
      switch (part.kind) {
        case ChatPart::Kind::kContent:
          content += part.text;
          break;
        case ChatPart::Kind::kReasoning:
          reasoning += part.text;
          break;
        case ChatPart::Kind::kCall:
          names.push_back(part.text);
          ids.push_back(part.id);
          arguments.emplace_back();
          break;
        case ChatPart::Kind::kArguments:
          ASSERT_FALSE(arguments.empty());
          arguments.back() += part.text;
          break;
        case ChatPart::Kind::kCallEnd:
          ++ended;
          break;
      }
    }
  }
};

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  out << "content <" << answer.content << "> reasoning <" << answer.reasoning << ">";
  for (size_t i = 0; i < answer.names.size(); ++i) out << " " << answer.names[i] << "(" << answer.arguments[i] << ")";
  return out << " ended " << answer.ended;
}

// The format of this name with the thinking marks of think.toml where it has none.
std::shared_ptr<const ChatFormat> format_named(const std::string& name) {
  static const auto files = shipped_chat_formats().value();
  ChatFormat out;
  for (const ChatFormatFile& file : files) {
    if (file.format.name == name) out = file.format;
  }
  EXPECT_EQ(out.name, name);
  for (const ChatFormatFile& file : files) {
    if (file.format.name == "think" && out.thinking.empty()) out.thinking = file.format.thinking;
  }
  return std::make_shared<const ChatFormat>(std::move(out));
}

struct Asked {
  bool calls = true;
  bool one_call = false;
  bool complete = true;
  std::string prompt_end;
};

Answer parse(const std::shared_ptr<const ChatFormat>& format, const std::vector<std::string>& pieces,
             const Asked& asked) {
  static const auto tools = std::make_shared<const ToolSet>(parse_json(kTools).value());
  ChatParser parser(format, tools, {.calls = asked.calls, .one_call = asked.one_call});
  if (!asked.prompt_end.empty()) parser.continue_from(asked.prompt_end);
  Answer out;
  for (const std::string& piece : pieces) out.add(parser.push(piece));
  out.add(parser.finish(asked.complete));
  return out;
}

std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) {
    if (out.empty() || (static_cast<unsigned char>(c) & 0xC0) != 0x80) out.emplace_back();
    out.back() += c;
  }
  return out;
}

const std::vector<Json>& examples() {
  static const std::vector<Json> list = [] {
    const auto text = read_text_file(std::string(FL_SOURCE_DIR) + "/src/text/test/data/chat_examples.json");
    return parse_json(text.value()).value().get<std::vector<Json>>();
  }();
  return list;
}

std::string field(const Json& example, const char* name) {
  return example.contains(name) ? example[name].get<std::string>() : "";
}

Asked asked(const Json& example) {
  return {.complete = !example.contains("unfinished"), .prompt_end = field(example, "prompt_end")};
}

TEST(ChatParser, ReadsEveryExample) {
  for (const Json& example : examples()) {
    SCOPED_TRACE(dump_json(example));
    const Answer answer = parse(format_named(field(example, "format")), {field(example, "text")}, asked(example));
    EXPECT_EQ(answer.content, field(example, "content"));
    EXPECT_EQ(answer.reasoning, field(example, "reasoning"));
    const Json calls = example.contains("calls") ? example["calls"] : Json::array();
    ASSERT_EQ(answer.names.size(), calls.size()) << answer;
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(answer.names[i], calls[i][0]);
      if (calls[i][1].is_string()) {
        EXPECT_EQ(answer.arguments[i], calls[i][1].get<std::string>());
      } else {
        const auto arguments = parse_json(answer.arguments[i]);
        ASSERT_TRUE(arguments.ok()) << answer.arguments[i];
        EXPECT_EQ(nlohmann::json::parse(dump_json(*arguments)), nlohmann::json::parse(dump_json(calls[i][1])));
      }
      if (example.contains("ids")) {
        EXPECT_EQ(answer.ids[i], example["ids"][i]);
      }
      EXPECT_FALSE(answer.ids[i].empty());
    }
    EXPECT_EQ(answer.ended, static_cast<int64_t>(calls.size()) - (example.contains("unfinished") ? 1 : 0));
  }
}

TEST(ChatParser, EveryCutGivesTheSame) {
  for (const Json& example : examples()) {
    SCOPED_TRACE(dump_json(example));
    const auto format = format_named(field(example, "format"));
    const std::string text = field(example, "text");
    const Answer whole = parse(format, {text}, asked(example));
    const std::vector<std::string> pieces = characters(text);
    EXPECT_EQ(parse(format, pieces, asked(example)), whole);
    std::string front;
    for (const std::string& piece : pieces) {
      front += piece;
      ASSERT_EQ(parse(format, {front, text.substr(front.size())}, asked(example)), whole) << "cut at " << front.size();
    }
  }
}

// Whatever a stream is cut at, what was sent is a beginning of the whole answer's fields, and no text is lost.
TEST(ChatParser, WhatIsSentIsNeverTakenBack) {
  for (const Json& example : examples()) {
    SCOPED_TRACE(dump_json(example));
    const auto format = format_named(field(example, "format"));
    const Answer whole = parse(format, {field(example, "text")}, asked(example));
    static const auto tools = std::make_shared<const ToolSet>(parse_json(kTools).value());
    ChatParser parser(format, tools, {.calls = true});
    if (example.contains("prompt_end")) parser.continue_from(field(example, "prompt_end"));
    Answer sent;
    for (const std::string& piece : characters(field(example, "text"))) {
      sent.add(parser.push(piece));
      ASSERT_TRUE(whole.content.starts_with(sent.content)) << sent;
      ASSERT_TRUE(whole.reasoning.starts_with(sent.reasoning)) << sent;
      ASSERT_LE(sent.names.size(), whole.names.size());
      for (size_t i = 0; i < sent.names.size(); ++i) ASSERT_TRUE(whole.arguments[i].starts_with(sent.arguments[i]));
    }
  }
}

std::string_view trimmed(std::string_view text) { return text.substr(0, text.find_last_not_of(" \n") + 1); }

// Cut by its length at every place, an answer has the beginning of what the whole one has: no piece of a mark or of a
// call's head is text, but of what is text in the whole. (White space at the end may be that of a mark.)
TEST(ChatParser, ACutAnswerIsABeginning) {
  for (const Json& example : examples()) {
    const auto format = format_named(field(example, "format"));
    const Answer whole = parse(format, {field(example, "text")}, asked(example));
    Asked cut = asked(example);
    cut.complete = false;
    std::string front;
    for (const std::string& piece : characters(field(example, "text"))) {
      front += piece;
      SCOPED_TRACE(dump_json(example) + "\ncut behind: " + front);
      const Answer answer = parse(format, {front}, cut);
      EXPECT_TRUE(whole.content.starts_with(trimmed(answer.content))) << answer;
      EXPECT_TRUE(whole.reasoning.starts_with(trimmed(answer.reasoning))) << answer;
      // A head that turns out to be broken later on is a call until then, if its name is known.
      EXPECT_TRUE(answer.names.size() <= whole.names.size() ||
                  whole.content.find(answer.names.back()) != std::string::npos)
          << answer;
      for (size_t i = 0; i < std::min(answer.names.size(), whole.names.size()); ++i) {
        EXPECT_EQ(answer.names[i], whole.names[i]);
        EXPECT_TRUE(whole.arguments[i].starts_with(answer.arguments[i])) << answer;
      }
      EXPECT_EQ(parse(format, characters(front), cut), answer);
    }
  }
}

TEST(ChatParser, ACutHeadIsNoText) {
  const struct {
    const char *format, *text, *content, *call;
  } kCases[] = {
      {"hermes", "Well.\n<tool_c", "Well.", ""},
      {"hermes", "Well.\n<tool_call>\n{\"name\": \"get_wea", "Well.", ""},
      {"hermes", "<tool_call>\n{\"name\": \"get_weather\", \"argu", "", "get_weather"},
      {"hermes", "a < b", "a < b", ""},
      {"hermes", "<think>so</thi", "", ""},
      {"glm", "<tool_call>calc\n<arg_ke", "", "calc"},
      {"qwen3_coder", "<tool_call>\n<function=calc>\n<parameter=x>\n1", "", "calc"},
      {"kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_", "", "now"},
      {"harmony", "<|channel|>commentary to=functions.calc <|con", "", "calc"},
      {"harmony", "<|channel|>fin", "", ""},
      {"mistral_args", "[TOOL_CALLS]calc[AR", "", "calc"},
      {"llama_json", "{\"name\": \"ca", "", ""},
      {"llama_json", "{\"name\": \"calc\", \"par", "", "calc"},
      {"llama_json", "{\"total\": 3, \"name\": \"ca", "{\"total\": 3, \"name\": \"ca", ""},
      {"python_list", "[get_wea", "", ""},
      {"python_list", "[some text", "[some text", ""},
      {"olmo3", "<function_calls>\nget_wea", "", ""},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(std::string(one.format) + ": " + one.text);
    const Answer answer = parse(format_named(one.format), characters(one.text), {.complete = false});
    EXPECT_EQ(answer.content, one.content);
    EXPECT_EQ(answer.names, one.call[0] == 0 ? std::vector<std::string>() : std::vector<std::string>{one.call});
    EXPECT_EQ(answer.ended, 0);
  }
  const Answer broken = parse(format_named("hermes"), {"<tool_call>\n{\"name\": \"get_wea"}, {});
  EXPECT_EQ(broken.content, "<tool_call>\n{\"name\": \"get_wea") << "the model's own end makes it text";
}

// A control token is a piece of a mark or nothing, wherever it stands.
TEST(ChatParser, ControlTokensAreNeverShown) {
  const auto tools = std::make_shared<const ToolSet>(parse_json(kTools).value());
  const auto read = [&](const char* format, const std::vector<std::string>& pieces, bool complete = true) {
    ChatParser parser(format_named(format), tools, {.calls = true});
    Answer out;
    for (const std::string& piece : pieces) out.add(parser.push(piece, piece.starts_with("<|") ? piece.size() : 0));
    out.add(parser.finish(complete));
    return out;
  };
  const std::string city = "call:get_weather{city:";
  const Answer call = read("gemma4", {"a", "<|tool_call>", city, "<|\"|>", "Rome", "<|\"|>", "}", "<tool_call|>"});
  ASSERT_EQ(call.names.size(), 1u) << "marks are marks";
  EXPECT_EQ(call.arguments[0], "{\"city\":\"Rome\"}");
  for (const bool complete : {true, false}) {
    EXPECT_EQ(read("gemma4", {"a ", "<|tool_call>", "b", "<|\"|>"}, complete).content, "a b");
    EXPECT_EQ(read("gemma4", {"a", "<|tool_call>", "call:nobody{", "<|\"|>", "}"}, complete).content, "acall:nobody{}");
    EXPECT_EQ(read("gemma4", {"<|tool_call>", "<|tool_call>"}, complete).content, "");
    EXPECT_EQ(read("harmony", {"<|channel|>", "other", "<|message|>", "hi", "<|constrain|>"}, complete).content,
              "otherhi");
    const Answer thought =
        read("harmony", {"<|channel|>", "analysis", "<|message|>", "so", "<|call|>", " it", "<|end|>"}, complete);
    EXPECT_EQ(thought.reasoning, "so it");
    EXPECT_EQ(thought.content, "");
  }
  const Answer json = read("kimi_k2", {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.calc:0",
                                       "<|tool_call_argument_begin|>", "{\"code\": \"a", "<|tool_call_begin|>", "b\"}",
                                       "<|tool_call_end|>", "<|tool_calls_section_end|>"});
  ASSERT_EQ(json.names.size(), 1u);
  EXPECT_EQ(json.arguments[0], "{\"code\": \"ab\"}");
  EXPECT_EQ(json.content, "");
  // Nor where something is held back: an escape, or the beginning of a mark that is text.
  const Answer held = read("kimi_k2", {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.calc:0",
                                       "<|tool_call_argument_begin|>", "{\"code\": \"a\\", "<|tool_call_begin|>",
                                       "n\"}", "<|tool_call_end|>", "<|tool_calls_section_end|>"});
  ASSERT_EQ(held.names.size(), 1u);
  EXPECT_EQ(held.arguments[0], "{\"code\": \"a\\n\"}");
  const Answer loose = read("gemma4", {"<|tool_call>", city, "<|\"|>", "Ro<", "<|tool_call>", "me", "<|\"|>", "}"});
  ASSERT_EQ(loose.names.size(), 1u);
  EXPECT_EQ(loose.arguments[0], "{\"city\":\"Ro<me\"}");
}

TEST(ChatParser, WithoutToolsCallsStayText) {
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const Answer answer = parse(format_named("hermes"), {"<think>a</think>" + call}, {.calls = false});
  EXPECT_EQ(answer.content, call);
  EXPECT_EQ(answer.reasoning, "a");
}

TEST(ChatParser, OneCallEndsTheAnswer) {
  for (const Json& example : examples()) {
    if (!example.contains("calls") || example["calls"].size() < 2) continue;
    SCOPED_TRACE(dump_json(example));
    Asked one = asked(example);
    one.one_call = true;
    const Answer answer = parse(format_named(field(example, "format")), characters(field(example, "text")), one);
    ASSERT_EQ(answer.names.size(), 1u);
    EXPECT_EQ(answer.names[0], example["calls"][0][0]);
    EXPECT_EQ(answer.ended, 1);
  }
}

TEST(ChatParser, HoldsBackOnlyWhatMayBeAMark) {
  const auto tools = std::make_shared<const ToolSet>(parse_json(kTools).value());
  ChatParser parser(format_named("hermes"), tools, {.calls = true});
  Answer sent;
  const auto say = [&](const char* text) {
    sent.add(parser.push(text));
    return sent.content;
  };
  EXPECT_EQ(say("a"), "a");
  EXPECT_EQ(say(" <"), "a");
  EXPECT_EQ(say("tool_"), "a");
  EXPECT_EQ(say("box"), "a <tool_box");
  EXPECT_EQ(say("<tool_call>{\"name\": \"calc\", \"arguments\": {\"code\": \"x"), "a <tool_box");
  ASSERT_EQ(sent.names.size(), 1u);
  EXPECT_EQ(sent.arguments[0], "{\"code\": \"x") << "arguments go out as they come";
  say("y");
  EXPECT_EQ(sent.arguments[0], "{\"code\": \"xy");
}

TEST(ChatParser, StreamsTheStringsOfParameterLists) {
  const auto tools = std::make_shared<const ToolSet>(parse_json(kTools).value());
  ChatParser parser(format_named("qwen3_coder"), tools, {.calls = true});
  Answer sent;
  sent.add(parser.push("<tool_call>\n<function=calc>\n<parameter=code>\nab\"c"));
  ASSERT_EQ(sent.names.size(), 1u);
  EXPECT_EQ(sent.arguments[0], "{\"code\":\"ab\\\"c");
  sent.add(parser.push("d\n</par"));
  EXPECT_EQ(sent.arguments[0], "{\"code\":\"ab\\\"cd");
  sent.add(parser.push("k</parameter>\n<parameter=x>\n1"));
  EXPECT_EQ(sent.arguments[0], "{\"code\":\"ab\\\"cd\\n</park\",\"x\":") << "a number goes out whole";
}

TEST(ChatParser, EndsALongHeadAsText) {
  const std::string text = "<tool_call>{\"x\": \"" + std::string(40000, 'a') + "\", \"name\": \"now\"}</tool_call>";
  const Answer answer = parse(format_named("hermes"), {text}, {});
  EXPECT_EQ(answer.content, text);
  EXPECT_TRUE(answer.names.empty());
}

TEST(ChatParser, IdsFollowTheFormat) {
  const Answer mistral = parse(format_named("mistral"), {R"([TOOL_CALLS][{"name": "now"}, {"name": "now"}])"}, {});
  ASSERT_EQ(mistral.ids.size(), 2u);
  EXPECT_EQ(mistral.ids[0].size(), 9u);
  EXPECT_NE(mistral.ids[0], mistral.ids[1]);
  const std::string call = "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
  const Answer twice = parse(format_named("kimi_k2"), {"<|tool_calls_section_begin|>" + call + call}, {});
  ASSERT_EQ(twice.ids.size(), 2u);
  EXPECT_EQ(twice.ids[0], "functions.now:0");
  EXPECT_TRUE(twice.ids[1].starts_with("call_")) << "an id of its own, though the model used one twice";
}

}  // namespace
}  // namespace firstlight::text
