// SPDX-License-Identifier: Apache-2.0
// There and back: an assistant's turn with thoughts and two calls as public chat templates write it into a prompt, read
// as if the model had written it, gives the turn again. Template and format come from different hands, so neither can
// make up for a fault of the other.
#include <gtest/gtest.h>

#include "base/file_map.h"
#include "base/json.h"
#include "text/chat/chat_parser.h"
#include "text/chat_template.h"

namespace firstlight::text {
namespace {

struct Case {
  const char* name;
  bool content = true, thoughts = false;
  int num_calls = 2;
};

Json tools() {
  return parse_json(R"([{"type": "function", "function": {"name": "get_weather", "description": "w", "parameters":
    {"type": "object", "properties": {"city": {"type": "string", "description": "c"},
     "days": {"type": "integer", "description": "d"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "calc", "description": "c", "parameters": {"type": "object",
     "properties": {"x": {"type": "number", "description": "x"}, "code": {"type": "string", "description": "y"}},
     "required": []}}}])")
      .value();
}

Json call(const char* name, const char* id, Json arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

struct Turn {
  std::string text;    // what the rendered conversation has more than the one that ends before it
  std::string prompt;  // the latter, where the former begins with it
};

Turn turn_text(const ChatTemplate& chat, Json messages) {
  ChatContext context{.messages = messages, .tools = tools(), .add_generation_prompt = false};
  context.variables = {{"enable_thinking", true}, {"thinking", true}};
  context.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  context.now_unix_s = 0;
  const auto whole = chat.render(context);
  EXPECT_TRUE(whole.ok()) << whole.status().message();
  messages.erase(messages.size() - 1);
  context.messages = messages;
  context.add_generation_prompt = true;
  const auto before = chat.render(context);
  EXPECT_TRUE(before.ok()) << before.status().message();
  if (!whole.ok() || !before.ok()) return {};
  const std::string all = whole->text(), front = before->text();
  size_t same = 0;
  while (same < std::min(all.size(), front.size()) && all[same] == front[same]) ++same;
  return {all.substr(same), same == front.size() ? front : ""};
}

TEST(ChatRoundTrip, PublicTemplates) {
  static constexpr Case kCases[] = {
      {"llama.cpp/Apertus-8B-Instruct"},
      {"llama.cpp/Bielik-11B-v3.0-Instruct", true, true},
      {"llama.cpp/ByteDance-Seed-OSS", true, true},
      {"llama.cpp/CohereForAI-c4ai-command-r7b-12-2024-tool_use", false},
      {"llama.cpp/GLM-4.6", true, true},
      {"llama.cpp/MiMo-VL"},
      {"llama.cpp/MiniMax-M2", true, true},
      {"llama.cpp/Mistral-Small-3.2-24B-Instruct-2506", false},
      {"llama.cpp/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", true, true},
      {"llama.cpp/NousResearch-Hermes-3-Llama-3.1-8B-tool_use", false},
      {"llama.cpp/Qwen-Qwen2.5-7B-Instruct"},
      {"llama.cpp/Qwen-Qwen3-0.6B", true, true},
      {"llama.cpp/Qwen3.5-4B", true, true},
      {"llama.cpp/deepseek-ai-DeepSeek-V3.1"},
      {"llama.cpp/deepseek-ai-DeepSeek-V3.2", true, true},
      {"llama.cpp/deepseek-ai-DeepSeek-V4", true, true},
      {"llama.cpp/ibm-granite-granite-4.0"},
      {"llama.cpp/meetkai-functionary-medium-v3.1"},
      {"llama.cpp/meta-llama-Llama-3.1-8B-Instruct", false, false, 1},
      {"llama.cpp/meta-llama-Llama-3.2-3B-Instruct", false, false, 1},
      {"llama.cpp/mistralai-Mistral-Nemo-Instruct-2407", false},
      {"llama.cpp/moonshotai-Kimi-K2"},
      {"llama.cpp/openai-gpt-oss-120b", false, false, 1},
      {"llama.cpp/poolside-Laguna-XS-2.1", true, true},
      {"llama.cpp/unsloth-Apriel-1.5"},
      {"llama.cpp/unsloth-mistral-Devstral-Small-2507"},
      {"mistral-common/v13"},
      {"smg/kimi_k25_chat_template", true, true},
      {"vllm/tool_chat_template_deepseekr1"},
      {"vllm/tool_chat_template_granite", false},
      {"vllm/tool_chat_template_hunyuan_a13b"},
      {"vllm/tool_chat_template_internlm2_tool"},
      {"vllm/tool_chat_template_qwen3coder"},
  };
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data/templates/";
  if (!read_text_file(folder + "llama.cpp/Qwen-Qwen3-0.6B.jinja").ok()) GTEST_SKIP() << "no " << folder;
  const auto files = shipped_chat_formats().value();
  const auto set = std::make_shared<const ToolSet>(tools());
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const auto source = read_text_file(folder + one.name + ".jinja");
    ASSERT_TRUE(source.ok());
    const auto chat = ChatTemplate::compile(*source, one.name);
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    Json calls = Json::array({call("get_weather", "functions.get_weather:0", {{"city", "Köln \"x\""}, {"days", 3}}),
                              call("calc", "functions.calc:1", {{"x", 2.5}, {"code", "a\n  b"}})});
    const bool short_ids = source->find("== 9") != std::string::npos || source->find("!= 9") != std::string::npos;
    if (short_ids) calls[0]["id"] = "abcdefghi", calls[1]["id"] = "abcdefghj";
    while (static_cast<int>(calls.size()) > one.num_calls) calls.erase(calls.size() - 1);
    Json turn = {
        {"role", "assistant"}, {"content", one.content ? Json("Let me look.") : Json()}, {"tool_calls", calls}};
    if (one.thoughts) turn["reasoning_content"] = "Two things.";
    const auto [text, prompt] = turn_text(*chat, Json::array({{{"role", "user"}, {"content", "Q"}}, turn}));
    const auto format = std::make_shared<const ChatFormat>(recognise_chat_format(files, {*source, nullptr}));
    ChatParser parser(format, set, {.calls = true});
    parser.continue_from(format->open_end(prompt));
    std::vector<ChatPart> parts = parser.push(text);
    for (ChatPart& part : parser.finish(true)) parts.push_back(std::move(part));
    std::string content, thoughts;
    std::vector<std::pair<std::string, std::string>> got;
    for (const ChatPart& part : parts) {
      if (part.kind == ChatPart::Kind::kContent) content += part.text;
      if (part.kind == ChatPart::Kind::kReasoning) thoughts += part.text;
      if (part.kind == ChatPart::Kind::kCall) got.emplace_back(part.text, "");
      if (part.kind == ChatPart::Kind::kArguments) got.back().second += part.text;
    }
    EXPECT_EQ(thoughts, one.thoughts ? "Two things." : "") << text;
    if (one.content) {
      EXPECT_TRUE(content.starts_with("Let me look.")) << content << "\n" << text;
    }
    ASSERT_EQ(got.size(), calls.size()) << text;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].first, calls[i]["function"]["name"]);
      EXPECT_EQ(nlohmann::json::parse(got[i].second, nullptr, false),
                nlohmann::json::parse(dump_json(calls[i]["function"]["arguments"])))
          << text;
    }
  }
}

}  // namespace
}  // namespace firstlight::text
