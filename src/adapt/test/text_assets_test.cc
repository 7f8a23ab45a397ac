// SPDX-License-Identifier: Apache-2.0
#include "adapt/text_assets.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"
#include "formats/gguf_writer.h"
#include "text/chat_renderer.h"

namespace firstlight::adapt {
namespace {

const std::string kTemplate = "{% for m in messages %}{{ bos_token }}{{ m.content }}{% endfor %}";

std::string rendered(const std::unique_ptr<text::ChatRenderer>& chat, const TextAssets& assets) {
  text::ChatContext context;
  context.messages.push_back({{"role", "user"}, {"content", "hi"}});
  context.special_tokens = assets.special_tokens;
  const auto prompt = chat->render(context);
  return prompt.ok() ? prompt->text() : prompt.status().message();
}

TEST(TextAssets, ADirectoryGivesTokenizerTemplateAndSpecialTokens) {
  const TestFolder folder;
  write_text(folder / "tokenizer.json", character_tokenizer());
  const Json config = {{"chat_template", kTemplate},
                       {"bos_token", "<s>"},
                       {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
                       {"pad_token", Json()},
                       {"add_bos_token", false}};
  write_text(folder / "tokenizer_config.json", dump_json(config));
  const TextAssets assets = load_text_assets(folder.path(), nullptr);
  ASSERT_TRUE(assets.tokenizer.has_value()) << assets.tokenizer_error;
  EXPECT_EQ(assets.tokenizer->vocab_size(), 3 + static_cast<int32_t>(kCharacters.size()));
  ASSERT_NE(assets.chat_template, nullptr) << assets.chat_template_error;
  EXPECT_EQ(rendered(assets.chat_template, assets), "<s>hi");
  EXPECT_EQ(assets.tool_chat_template, nullptr);
  EXPECT_EQ(assets.chat_template_source, "tokenizer_config.json");
  const auto has = [&](const char* name, const char* text) {
    return std::count(assets.special_tokens.begin(), assets.special_tokens.end(),
                      std::pair<std::string, std::string>(name, text)) == 1;
  };
  EXPECT_TRUE(has("bos_token", "<s>"));
  EXPECT_TRUE(has("eos_token", "</s>"));
  EXPECT_TRUE(has("unk_token", "<unk>")) << "by the tokenizer, where no file says it";
  EXPECT_TRUE(assets.require_tokenizer().ok());
}

TEST(TextAssets, ToolsMayHaveATemplateOfTheirOwn) {
  const TestFolder folder;
  write_text(folder / "tokenizer.json", character_tokenizer());
  const Json config = {{"chat_template",
                        {{{"name", "default"}, {"template", kTemplate}},
                         {{"name", "tool_use"}, {"template", "tools: {{ messages[0].content }}"}}}}};
  write_text(folder / "tokenizer_config.json", dump_json(config));
  const TextAssets assets = load_text_assets(folder.path(), nullptr);
  ASSERT_NE(assets.chat_template, nullptr) << assets.chat_template_error;
  ASSERT_NE(assets.tool_chat_template, nullptr) << assets.chat_template_error;
  EXPECT_EQ(rendered(assets.tool_chat_template, assets), "tools: hi");
}

TEST(TextAssets, ATemplateFileComesFirst) {
  const TestFolder folder;
  write_text(folder / "tokenizer.json", character_tokenizer());
  write_text(folder / "tokenizer_config.json", R"({"chat_template":"old"})");
  write_text(folder / "chat_template.jinja", "new {{ messages[0].content }}");
  const TextAssets assets = load_text_assets(folder.path(), nullptr);
  ASSERT_NE(assets.chat_template, nullptr) << assets.chat_template_error;
  EXPECT_EQ(rendered(assets.chat_template, assets), "new hi");
  EXPECT_EQ(assets.chat_template_source, "chat_template.jinja");
}

TEST(TextAssets, WhatIsBrokenIsToldWhenItIsWanted) {
  const TestFolder folder;
  write_text(folder / "tokenizer.json", "{");
  write_text(folder / "tokenizer_config.json", R"({"chat_template":"{% for %}"})");
  const TextAssets assets = load_text_assets(folder.path(), nullptr);
  EXPECT_FALSE(assets.tokenizer.has_value());
  EXPECT_FALSE(assets.tokenizer_error.empty());
  EXPECT_EQ(assets.chat_template, nullptr);
  EXPECT_NE(assets.chat_template_error.find("tokenizer_config.json"), std::string::npos) << assets.chat_template_error;
  const auto wanted = assets.require_tokenizer();
  EXPECT_EQ(wanted.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(wanted.status().message().find(assets.tokenizer_error), std::string::npos);
  write_text(folder / "tokenizer_config.json", "[]");
  EXPECT_NE(load_text_assets(folder.path(), nullptr).chat_template_error.find("not an object"), std::string::npos);
  EXPECT_FALSE(load_text_assets("/no/such/folder", nullptr).tokenizer_error.empty());
  for (const char* name : {"chat_template.jinja", "tokenizer_config.json"}) {
    write_text(folder / name, "");
    const std::string error = load_text_assets(folder.path(), nullptr).chat_template_error;
    EXPECT_NE(error.find(std::string(name) + ": the file is empty"), std::string::npos) << error;
  }
}

TEST(TextAssets, ASingleFileIsKnownByItsName) {
  const TestFolder folder;
  write_text(folder / "any.json", character_tokenizer());
  EXPECT_TRUE(load_text_assets(folder / "any.json", nullptr).tokenizer.has_value());
  write_text(folder / "bad.model", "none");
  EXPECT_FALSE(load_text_assets(folder / "bad.model", nullptr).tokenizer_error.empty());
  write_text(folder / "what.txt", "none");
  const TextAssets unknown = load_text_assets(folder / "what.txt", nullptr);
  EXPECT_NE(unknown.tokenizer_error.find("what.txt"), std::string::npos) << unknown.tokenizer_error;
}

TEST(TextAssets, AGgufHoldsBothInItsMetadata) {
  const TestFolder folder;
  formats::GgufWriter writer;
  writer.set("general.architecture", std::string("llama"));
  writer.set("tokenizer.ggml.model", std::string("llama"));
  writer.set_array("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "a", "b"});
  writer.set_array("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, -2});
  writer.set_array("tokenizer.ggml.token_type", std::vector<int32_t>{2, 3, 3, 1, 1});
  writer.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
  writer.set("tokenizer.chat_template", kTemplate);
  writer.set("tokenizer.chat_template.tool_use", std::string("tools"));
  ASSERT_TRUE(writer.write(folder / "m.gguf").ok());
  const auto checkpoint = formats::Checkpoint::open(folder / "m.gguf");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const TextAssets assets = load_text_assets(folder / "m.gguf", &*checkpoint);
  ASSERT_TRUE(assets.tokenizer.has_value()) << assets.tokenizer_error;
  ASSERT_NE(assets.chat_template, nullptr) << assets.chat_template_error;
  EXPECT_EQ(rendered(assets.chat_template, assets), "<s>hi");
  EXPECT_NE(assets.tool_chat_template, nullptr);
  EXPECT_EQ(assets.chat_template_source, "tokenizer.chat_template");
  EXPECT_EQ(assets.tokenizer_source, "tokenizer.ggml");
}

TEST(TextAssets, ModelsWithoutTextSayWhy) {
  const auto checkpoint = formats::Checkpoint::open(golden_path());
  ASSERT_TRUE(checkpoint.ok());
  const TextAssets assets = load_text_assets(golden_path(), &*checkpoint);
  EXPECT_FALSE(assets.tokenizer.has_value());
  EXPECT_FALSE(assets.tokenizer_error.empty());
  EXPECT_FALSE(assets.chat_template_error.empty());
}

TEST(StopTokenIds, AreTheUnionWithoutDoubles) {
  const TestFolder folder;
  write_text(folder / "tokenizer.json", character_tokenizer());
  write_text(folder / "tokenizer_config.json", R"({"eos_token":"</s>"})");
  const TextAssets assets = load_text_assets(folder.path(), nullptr);
  intake::TokenFacts facts;
  facts.eos = {{7, "config.json"}, {2, "generation_config.json"}};
  EXPECT_EQ(stop_token_ids(facts, assets), (std::vector<int32_t>{2, 7}));
  facts.eos = {{7, "config.json"}};
  EXPECT_EQ(stop_token_ids(facts, assets), (std::vector<int32_t>{2, 7})) << "the tokenizer's own end";
  EXPECT_EQ(stop_token_ids(facts, TextAssets()), (std::vector<int32_t>{7}));
}

}  // namespace
}  // namespace firstlight::adapt
