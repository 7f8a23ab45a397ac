// SPDX-License-Identifier: Apache-2.0
// Format files: what is refused, and which of the shipped ones a model is seen to follow.
#include "text/chat/chat_format.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file_map.h"
#include "text/tokenizer.h"

namespace firstlight::text {
namespace {

TEST(ChatFormat, TheShippedFilesAreRead) {
  const auto files = shipped_chat_formats();
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_GE(files->size(), 25u);
}

TEST(ChatFormat, EveryShippedFileIsInTheDocs) {
  const auto docs = read_text_file(std::string(FL_SOURCE_DIR) + "/docs/chat_formats.md");
  ASSERT_TRUE(docs.ok());
  for (const EmbeddedFile& file : embedded_files()) {
    const std::string name(file.path.substr(0, file.path.rfind('.')));
    EXPECT_NE(docs->find("\n| `" + name + "` |"), std::string::npos) << name;
  }
}

TEST(ChatFormat, FaultsAreNamed) {
  const std::string head = "[recognise]\ntemplate = \"x\"\n";
  const std::pair<std::string, std::string> cases[] = {
      {"[calls", "line 1"},
      {"surprise = 1", "unknown key 'surprise'"},
      {"[calls]\ncall = \"<a>{call}</a>\"", "recognise"},
      {head + "[calls]\ncalls = \"<a>{call}</a>\"", "unknown key 'calls' in calls"},
      {head + "[calls]\n", "calls.call: missing"},
      {head + "[calls]\ncall = 1", "strings that are not empty wanted"},
      {head + "[calls]\ncall = \"\"", "strings that are not empty wanted"},
      {head + "[calls]\ncall = \"<a></a>\"", "{call}"},
      {head + "[calls]\ncall = \"<a>{call}{calls}</a>\"", "a second body"},
      {head + "[calls]\ncall = \"<a>{arguments}</a>\"", "{name} wanted"},
      {head + "[calls]\ncall = \"{name}{arguments}</a>\"", "text wanted first"},
      {head + "[calls]\ncall = \"<a>{name}<b>{parameters}</a>\"", "calls.parameter"},
      {head + "[calls]\ncall = \"<a>{name}<b>{parameters}</a>\"\nparameter = \"<p>{key}\"", "wanted"},
      {head + "[calls]\ncall = \"<a>{name}<b>{parameters}</a>\"\nparameter = \"{key}={value};\"", "text wanted first"},
      {head + "[calls]\ncall = \"<a>{name}{loose}</a>\"", "calls.quote"},
      {head + "[calls]\ncall = \"{call}\"\nbegin = \"<a>\"", "both or neither"},
      {head + "[calls]\ncall = \"{call}\"\nkeyed = 1", "true or false wanted"},
      {"[recognise]\n", "wanted"},
      {"[[thinking]]\nopen = \"<t>\"", "open and close wanted"},
      {"[answer]\ndropped = \"{any}\"", "text wanted behind"},
      {"thinking = 1", "[[thinking]]"},
  };
  for (const auto& [toml, wanted] : cases) {
    const auto file = read_chat_format(toml, "mine");
    ASSERT_FALSE(file.ok()) << toml;
    EXPECT_EQ(file.code(), StatusCode::kInvalidData);
    EXPECT_NE(file.status().message().find(wanted), std::string::npos) << toml << "\n" << file.status().message();
    EXPECT_NE(file.status().message().find("chat format 'mine'"), std::string::npos) << file.status().message();
  }
}

std::string recognised(std::string_view template_text, const Tokenizer* tokenizer = nullptr) {
  static const auto files = shipped_chat_formats().value();
  return recognise_chat_format(files, {template_text, tokenizer}).name;
}

TEST(ChatFormat, TheMostMarksWin) {
  EXPECT_EQ(recognised(""), "");
  EXPECT_EQ(recognised("a <tool_call> b"), "hermes");
  EXPECT_EQ(recognised("a <tool_call> <function= <parameter="), "qwen3_coder");
  EXPECT_EQ(recognised("<tool_call><arg_key><arg_value> </think>"), "glm+think");
  EXPECT_EQ(recognised("<think>"), "think");
  EXPECT_EQ(recognised("[TOOL_CALLS] [ARGS] [THINK]"), "mistral_args+think");
}

TEST(ChatFormat, TheOpenEndOfAPrompt) {
  static const auto files = shipped_chat_formats().value();
  const ChatFormat think = recognise_chat_format(files, {"<think> <thinking> [THINK]"});
  EXPECT_EQ(think.open_end("<|assistant|><think>\n"), "<think>");
  EXPECT_EQ(think.open_end("[THINK]"), "[THINK]");
  EXPECT_EQ(think.open_end("<think>\n\n</think>\n\n"), "");
  EXPECT_EQ(think.open_end("<|assistant|>"), "");
  EXPECT_EQ(think.open_thought("<|assistant|><think>\n"), "</think>");
  EXPECT_EQ(think.open_thought("[THINK]"), "[/THINK]");
  EXPECT_EQ(think.open_thought("<think>\n\n</think>\n\n"), "");
  EXPECT_EQ(think.open_thought("<|assistant|>"), "");
  const ChatFormat harmony = recognise_chat_format(files, {"<|channel|><|message|>commentary"});
  EXPECT_EQ(harmony.name, "harmony");
  EXPECT_EQ(harmony.open_end("<|start|>assistant"), "<|start|>assistant");
  EXPECT_EQ(harmony.open_thought("<|start|>assistant"), "") << "the answer's to open";
}

// Every public template at hand, and the format that its text says. A template that is not in the list says none.
TEST(ChatFormat, PublicTemplates) {
  const std::map<std::string, std::string> wanted = {
      {"llama.cpp/Apertus-8B-Instruct", "apertus"},
      {"llama.cpp/Bielik-11B-v3.0-Instruct", "hermes+think"},
      {"llama.cpp/ByteDance-Seed-OSS", "seed_oss+think"},
      {"llama.cpp/CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command_r7b"},
      {"llama.cpp/GLM-4.6", "glm+think"},
      {"llama.cpp/HuggingFaceTB-SmolLM3-3B", "think"},
      {"llama.cpp/Kimi-K2-Instruct", "kimi_k2"},
      {"llama.cpp/LFM2-8B-A1B", "lfm2"},
      {"llama.cpp/LFM2.5-Instruct", "think"},
      {"llama.cpp/MiMo-VL", "hermes"},
      {"llama.cpp/MiniMax-M2", "minimax_m2+think"},
      {"llama.cpp/Mistral-Small-3.2-24B-Instruct-2506", "mistral_args"},
      {"llama.cpp/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3_coder+think"},
      {"llama.cpp/NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
      {"llama.cpp/NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
      {"llama.cpp/Qwen-QwQ-32B", "hermes+think"},
      {"llama.cpp/Qwen-Qwen2.5-7B-Instruct", "hermes"},
      {"llama.cpp/Qwen-Qwen3-0.6B", "hermes+think"},
      {"llama.cpp/Qwen3.5-4B", "qwen3_coder+think"},
      {"llama.cpp/deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek_v3+think"},
      {"llama.cpp/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek_v3+think"},
      {"llama.cpp/deepseek-ai-DeepSeek-V3.1", "deepseek_v31+think"},
      {"llama.cpp/deepseek-ai-DeepSeek-V3.2", "deepseek_dsml_v32"},
      {"llama.cpp/deepseek-ai-DeepSeek-V4", "deepseek_dsml"},
      {"llama.cpp/google-gemma-4-31B-it", "gemma4"},
      {"llama.cpp/ibm-granite-granite-3.3-2B-Instruct", "granite+think"},
      {"llama.cpp/ibm-granite-granite-4.0", "hermes"},
      {"llama.cpp/llama-cpp-deepseek-r1", "deepseek_v3+think"},
      {"llama.cpp/llama-cpp-rwkv-world", "think"},
      {"llama.cpp/meetkai-functionary-medium-v3.1", "functionary"},
      {"llama.cpp/meta-llama-Llama-3.1-8B-Instruct", "llama_json"},
      {"llama.cpp/meta-llama-Llama-3.2-3B-Instruct", "llama_json"},
      {"llama.cpp/meta-llama-Llama-3.3-70B-Instruct", "llama_json"},
      {"llama.cpp/mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
      {"llama.cpp/moonshotai-Kimi-K2", "kimi_k2"},
      {"llama.cpp/openai-gpt-oss-120b", "harmony"},
      {"llama.cpp/poolside-Laguna-XS-2.1", "glm+think"},
      {"llama.cpp/poolside-Laguna-XS.2", "glm+think"},
      {"llama.cpp/unsloth-Apriel-1.5", "tool_calls_tag+think"},
      {"llama.cpp/unsloth-mistral-Devstral-Small-2507", "mistral_args"},
      {"smg/kimi_k25_chat_template", "kimi_k2+think"},
      {"vllm/tool_chat_template_functiongemma", "functiongemma"},
      {"vllm/tool_chat_template_gemma3_pythonic", "python_list"},
      {"vllm/tool_chat_template_granite", "granite"},
      {"vllm/tool_chat_template_hermes", "hermes"},
      {"vllm/tool_chat_template_hunyuan_a13b", "tool_calls_tag+think"},
      {"vllm/tool_chat_template_internlm2_tool", "internlm2"},
      {"vllm/tool_chat_template_llama3.1_json", "llama_json"},
      {"vllm/tool_chat_template_llama4_json", "llama_json"},
      {"vllm/tool_chat_template_llama4_pythonic", "python_list"},
      {"vllm/tool_chat_template_mistral", "mistral"},
      {"vllm/tool_chat_template_qwen3coder", "qwen3_coder"},
      {"vllm/tool_chat_template_toolace", "python_list"},
  };
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data/templates/";
  if (!read_text_file(folder + "llama.cpp/Qwen-Qwen3-0.6B.jinja").ok()) GTEST_SKIP() << "no " << folder;
  for (const auto& [name, format] : wanted) {
    const auto text = read_text_file(folder + name + ".jinja");
    ASSERT_TRUE(text.ok()) << name;
    EXPECT_EQ(recognised(*text), format) << name;
  }
}

TEST(ChatFormat, SpecialMarksAreTheTokensInMarks) {
  TiktokenSpec spec;
  spec.pattern = "[\\s\\S]";
  spec.special_tokens = {{"<|end|>", 256}, {"<|call|>", 257}, {"<|pad|>", 258}};
  std::string ranks;
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int byte = 0; byte < 256; ++byte) {
    ranks += std::string{kDigits[byte >> 2], kDigits[(byte & 3) << 4], '=', '=', ' '} + std::to_string(byte) + "\n";
  }
  const auto tokenizer = load_tiktoken(ranks, spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  static const auto files = shipped_chat_formats().value();
  const ChatFormat harmony = recognise_chat_format(files, {"<|channel|><|message|>commentary"});
  EXPECT_EQ(harmony.special_marks(*tokenizer, false), std::vector<int32_t>{256});
  EXPECT_EQ(harmony.special_marks(*tokenizer, true), (std::vector<int32_t>{256, 257}));
  EXPECT_EQ(recognised("", &*tokenizer), "");
}

}  // namespace
}  // namespace firstlight::text
