// SPDX-License-Identifier: Apache-2.0
// Prompts of the shipped render functions against those that other engines publish (goldens/<renderer> of the shared
// data), byte for byte. A case is a request and the text of its prompt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/file_map.h"
#include "base/json.h"
#include "intake/spec_renderer.h"
#include "text/chat_renderer.h"

namespace firstlight::intake {
namespace {

constexpr int64_t kFrozen = 1751112000;  // 2025-06-28 12:00:00 UTC

std::string shared(const std::string& path) { return std::string(FL_SOURCE_DIR) + "/../shared/data/goldens/" + path; }

std::string read(const std::string& path) {
  const auto text = read_text_file(path);
  EXPECT_TRUE(text.ok()) << path;
  return text.ok() ? *text : "";
}

// A list of messages, or an object with them and what else the request says.
text::ChatContext context_of(const Json& request) {
  text::ChatContext context{.now_unix_s = kFrozen};
  if (request.is_array()) {
    context.messages = request;
    return context;
  }
  context.messages = request.at("messages");
  context.add_generation_prompt = request.value("add_generation_prompt", true);
  for (const char* name : {"variables", "template_kwargs"}) {
    if (request.contains(name)) context.variables = request[name];
  }
  if (request.contains("tools")) context.tools = request["tools"];
  if (request.contains("tool_choice")) context.tool_choice = request["tool_choice"];
  if (request.contains("response_format")) context.response_format = request["response_format"];
  return context;
}

std::string prompt_of(const std::string& model_type, const text::ChatContext& context) {
  const auto renderer = open_spec_renderer({}, model_type);
  if (!renderer.ok()) return renderer.status().to_string();
  if (*renderer == nullptr) return "(no renderer)";
  const auto prompt = (*renderer)->render(context);
  return prompt.ok() ? prompt->text() : prompt.status().to_string();
}

// "" where both are the same, else a window around the first byte that differs.
std::string difference(const std::string& found, const std::string& wanted) {
  if (found == wanted) return "";
  const auto at = static_cast<size_t>(std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end()).first -
                                      found.begin());
  const size_t begin = at < 60 ? 0 : at - 60;
  return "at byte " + std::to_string(at) + ": found ..." + found.substr(begin, 140) + "... wanted ..." +
         wanted.substr(begin, 140) + "...";
}

// Files that a text editor or a test tool ended with a line break.
std::string without_last_break(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

TEST(RenderGolden, DeepSeek) {
  if (!std::filesystem::exists(shared("deepseek_v32"))) GTEST_SKIP() << "needs shared data: goldens/deepseek_v32";
  struct Case {
    const char* model_type;
    const char* input;
    const char* output;
  };
  for (const Case& one :
       {Case{"deepseek_v32", "deepseek_v32/test_input.json", "deepseek_v32/test_output_vllm_parity.txt"},
        Case{"deepseek_v4", "deepseek_v4/test_input_1.json", "deepseek_v4/test_output_1.txt"},
        Case{"deepseek_v4", "deepseek_v4/test_input_2.json", "deepseek_v4/test_output_2.txt"}}) {
    text::ChatContext context = context_of(parse_json(read(shared(one.input))).value());
    context.variables = {{"thinking", true}};
    context.add_generation_prompt = false;  // each ends in an answer
    EXPECT_EQ(difference(prompt_of(one.model_type, context), read(shared(one.output))), "") << one.input;
  }
}

TEST(RenderGolden, KimiK3) {
  if (!std::filesystem::exists(shared("kimi_k3"))) GTEST_SKIP() << "needs shared data: goldens/kimi_k3";
  for (const std::string name : {"controls_thinking_off", "tools_history_and_required"}) {
    const auto context = context_of(parse_json(read(shared("kimi_k3/" + name + "_input.json"))).value());
    EXPECT_EQ(difference(prompt_of("kimi_k3", context), read(shared("kimi_k3/" + name + "_output.txt"))), "") << name;
  }
}

TEST(RenderGolden, HarmonyChats) {
  if (!std::filesystem::exists(shared("harmony"))) GTEST_SKIP() << "needs shared data: goldens/harmony";
  for (const std::string name : {"simple_user", "drop_analysis", "developer_tools", "assistant_history"}) {
    const auto context = context_of(parse_json(read(shared("harmony/" + name + ".json"))).value());
    EXPECT_EQ(difference(prompt_of("gpt_oss", context), without_last_break(read(shared("harmony/" + name + ".txt")))),
              "")
        << name;
  }
}

// Those of the format's own library. Its inputs are calls of that library; harmony_requests.json says each as a
// request.
TEST(RenderGolden, HarmonyLibrary) {
  if (!std::filesystem::exists(shared("openai-harmony"))) GTEST_SKIP() << "needs shared data: goldens/openai-harmony";
  const Json data =
      parse_json(read(std::string(FL_SOURCE_DIR) + "/src/intake/test/data/harmony_requests.json")).value();
  for (const auto& [name, request] : data["cases"].items()) {
    const std::string wanted = without_last_break(read(shared("openai-harmony/" + name + ".txt")));
    EXPECT_EQ(difference(prompt_of("gpt_oss", context_of(request)), wanted), "") << name;
  }
  // Every file is a case, or one of the answers that are for parsers.
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shared("openai-harmony"))) {
    const std::string name = entry.path().stem();
    const Json& parsed = data["parser_inputs"];
    EXPECT_TRUE(data["cases"].contains(name) || std::find(parsed.begin(), parsed.end(), name) != parsed.end()) << name;
    ++files;
  }
  EXPECT_EQ(files, data["cases"].size() + data["parser_inputs"].size());
}

std::string fingerprint(const std::string& text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  char out[40];
  std::snprintf(out, sizeof out, "%zu:%016llx", text.size(), static_cast<unsigned long long>(hash));
  return out;
}

// Drawn conversations against the encoders of the formats' makers (tools/golden/prompts.py).
TEST(RenderGolden, DrawnConversations) {
  const Json cases = parse_json(read(std::string(FL_SOURCE_DIR) + "/src/intake/test/data/drawn_prompts.json")).value();
  EXPECT_EQ(cases.size(), 60U);
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string family = cases[i]["family"].get<std::string>();
    const std::string prompt = prompt_of(family, context_of(cases[i]["request"]));
    EXPECT_EQ(fingerprint(prompt), cases[i]["prompt"].get<std::string>()) << family << " case " << i << "\n" << prompt;
  }
}

}  // namespace
}  // namespace firstlight::intake
