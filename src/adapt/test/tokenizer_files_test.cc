// SPDX-License-Identifier: Apache-2.0
// tokenizer.json and tokenizer_config.json of GGUF vocabularies.
#include "adapt/tokenizer_files.h"

#include <gtest/gtest.h>

#include <cstring>

#include "adapt/gguf_text.h"
#include "base/json.h"
#include "formats/gguf_writer.h"
#include "formats/tensor_file.h"
#include "text/tokenizer.h"

namespace firstlight::adapt {
namespace {

using text::GgufVocabulary;

std::string shared(const std::string& name) { return std::string(FL_SOURCE_DIR) + "/../shared/data/" + name; }

// <unk>, <s>, </s>, all bytes, then a few pieces; a better score is joined first.
GgufVocabulary pieces() {
  GgufVocabulary out;
  out.model = "llama";
  const auto add = [&](const std::string& token, float score, int32_t type) {
    out.tokens.push_back(token);
    out.scores.push_back(score);
    out.token_types.push_back(type);
  };
  add("<unk>", 0, 2);
  add("<s>", 0, 3);
  add("</s>", 0, 3);
  for (int i = 0; i < 256; ++i) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(i));
    add(name, 0, 6);
  }
  float score = -1;
  for (const char* token : {"\xE2\x96\x81", "a", "b", "c", "ab", "bc",
                            "\xE2\x96\x81"
                            "a",
                            "abc"}) {
    add(token, score, 1);
    score -= 1;
  }
  add("<tool>", 0, 4);
  return out;
}

TEST(TokenizerFiles, ScoresBecomeMerges) {
  const GgufVocabulary vocabulary = pieces();
  const auto json = tokenizer_json_of(vocabulary);
  ASSERT_TRUE(json.ok()) << json.status().to_string();
  const auto found = text::load_tokenizer_json(*json);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  const auto wanted = *text::load_gguf_vocabulary(vocabulary);
  for (const char* content : {"abc abc", "bcab", "xyz <tool>ab</s>", ""}) {
    EXPECT_EQ(*found->encode(content), *wanted.encode(content)) << content;
  }
  EXPECT_EQ(found->encode("abc")->front(), 1) << "no BOS";
  const Json document = *parse_json(*json);
  EXPECT_EQ(document["model"]["merges"][0], (Json{"a", "b"})) << "the best score first";
  EXPECT_EQ(document["added_tokens"].back()["special"], false);
}

TEST(TokenizerFiles, ATokenThatIsNoTextIsRefused) {
  GgufVocabulary vocabulary = pieces();
  vocabulary.tokens.push_back("\xFF\xFE");
  vocabulary.scores.push_back(-20);
  vocabulary.token_types.push_back(1);
  const auto json = tokenizer_json_of(vocabulary);
  EXPECT_EQ(json.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(json.status().message().find("UTF-8"), std::string::npos) << json.status().to_string();
}

TEST(TokenizerFiles, ConfigHasSpecialTokensAndTemplates) {
  formats::GgufWriter writer;
  writer.set("general.architecture", std::string("llama"));
  writer.set("tokenizer.chat_template", std::string("{{ messages }}"));
  writer.set("tokenizer.chat_template.tool_use", std::string("{{ tools }}"));
  const std::string bytes = writer.encode();
  const auto file = formats::GgufFile::parse(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  GgufVocabulary vocabulary = pieces();
  vocabulary.add_bos = false;
  vocabulary.pad_id = 2;
  const auto text = tokenizer_config_of(*file, vocabulary, 512);
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  const Json config = *parse_json(*text);
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["pad_token"], "</s>");
  EXPECT_EQ(config["add_bos_token"], false);
  EXPECT_EQ(config["model_max_length"], 512);
  ASSERT_EQ(config["chat_template"].size(), 2U);
  EXPECT_EQ(config["chat_template"][1]["name"], "tool_use");
}

// Phi-3's control tokens swallow white space, which the writer does not express and must notice; BERT's kind is
// another.
TEST(TokenizerFiles, SharedVocabulariesComeBackOrAreRefused) {
  int seen = 0;
  for (const auto& [name, code] : {std::pair("gpt-2", StatusCode::kOk),
                                   {"llama-spm", StatusCode::kOk},
                                   {"deepseek-coder", StatusCode::kOk},
                                   {"falcon", StatusCode::kOk},
                                   {"phi-3", StatusCode::kOk},
                                   {"bert-bge", StatusCode::kUnsupported}}) {
    const auto checkpoint = formats::Checkpoint::open(shared("gguf-vocab/ggml-vocab-" + std::string(name) + ".gguf"));
    if (!checkpoint.ok()) continue;
    ++seen;
    const auto vocabulary = read_gguf_vocabulary(*checkpoint->gguf());
    ASSERT_TRUE(vocabulary.ok());
    const auto json = tokenizer_json_of(*vocabulary);
    EXPECT_EQ(json.ok() ? StatusCode::kOk : json.status().code(), code)
        << name << ": " << (json.ok() ? "written" : json.status().to_string());
    EXPECT_TRUE(tokenizer_config_of(*checkpoint->gguf(), *vocabulary, 512).ok());
  }
  if (seen == 0) GTEST_SKIP() << "needs shared data: gguf-vocab";
}

}  // namespace
}  // namespace firstlight::adapt
