// SPDX-License-Identifier: Apache-2.0
#include "adapt/gguf_text.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"
#include "formats/gguf_writer.h"

namespace firstlight::adapt {
namespace {

formats::GgufWriter with_tokens() {
  formats::GgufWriter writer;
  writer.set("general.architecture", std::string("llama"));
  writer.set("tokenizer.ggml.model", std::string("llama"));
  writer.set_array("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "a"});
  return writer;
}

Result<text::GgufVocabulary> read(const formats::GgufWriter& writer) {
  const TestFolder folder;
  const std::string path = folder / "v.gguf";
  FL_TRY(writer.write(path));
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(path));
  return read_gguf_vocabulary(*checkpoint.gguf());
}

TEST(GgufText, EveryKeyArrives) {
  formats::GgufWriter writer = with_tokens();
  writer.set("general.name", std::string("Tiny"));
  writer.set("tokenizer.ggml.pre", std::string("smollm"));
  writer.set_array("tokenizer.ggml.scores", std::vector<float>{0, -1, -2, -3.5f});
  writer.set_array("tokenizer.ggml.token_type", std::vector<int32_t>{2, 3, 3, 1});
  writer.set_array("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  writer.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
  writer.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  writer.set("tokenizer.ggml.seperator_token_id", uint32_t{3});
  writer.set("tokenizer.ggml.cls_token_id", uint32_t{1});
  writer.set("tokenizer.ggml.padding_token_id", uint32_t{2});
  writer.set("tokenizer.ggml.add_bos_token", true);
  writer.set("tokenizer.ggml.add_eos_token", false);
  writer.set("tokenizer.ggml.add_sep_token", false);
  writer.set("tokenizer.ggml.add_space_prefix", false);
  writer.set("tokenizer.ggml.remove_extra_whitespaces", true);
  writer.set_array("tokenizer.ggml.precompiled_charsmap", std::vector<uint8_t>{1, 0, 255});
  const auto found = read(writer);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->model, "llama");
  EXPECT_EQ(found->pre, "smollm");
  EXPECT_EQ(found->model_name, "Tiny");
  EXPECT_EQ(found->tokens, (std::vector<std::string>{"<unk>", "<s>", "</s>", "a"}));
  EXPECT_EQ(found->scores, (std::vector<float>{0, -1, -2, -3.5f}));
  EXPECT_EQ(found->token_types, (std::vector<int32_t>{2, 3, 3, 1}));
  EXPECT_EQ(found->merges, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(found->bos_id, 1);
  EXPECT_EQ(found->eos_id, 2);
  EXPECT_EQ(found->unk_id, 0);
  EXPECT_EQ(found->sep_id, 3);
  EXPECT_EQ(found->cls_id, 1);
  EXPECT_EQ(found->pad_id, 2);
  EXPECT_EQ(found->add_bos, true);
  EXPECT_EQ(found->add_eos, false);
  EXPECT_EQ(found->add_sep, false);
  EXPECT_EQ(found->add_space_prefix, false);
  EXPECT_EQ(found->remove_extra_whitespaces, true);
  EXPECT_EQ(found->precompiled_charsmap, std::string("\x01\x00\xff", 3));
}

TEST(GgufText, AbsentKeysStayAbsent) {
  const auto found = read(with_tokens());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(found->scores.empty());
  EXPECT_FALSE(found->bos_id.has_value());
  EXPECT_FALSE(found->add_bos.has_value());
}

TEST(GgufText, NoVocabularyIsNotFound) {
  formats::GgufWriter writer;
  writer.set("general.architecture", std::string("llama"));
  EXPECT_EQ(read(writer).status().code(), StatusCode::kNotFound);
}

TEST(GgufText, AKeyOfAnotherTypeIsNamed) {
  const auto expect_named = [](const formats::GgufWriter& writer, const std::string& key) {
    const auto found = read(writer);
    ASSERT_FALSE(found.ok()) << key;
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidData) << key;
    EXPECT_NE(found.status().message().find(key), std::string::npos) << found.status().message();
  };
  formats::GgufWriter writer = with_tokens();
  writer.set("tokenizer.ggml.bos_token_id", std::string("one"));
  expect_named(writer, "tokenizer.ggml.bos_token_id");
  writer = with_tokens();
  writer.set("tokenizer.ggml.add_bos_token", std::string("yes"));
  expect_named(writer, "tokenizer.ggml.add_bos_token");
  writer = with_tokens();
  writer.set("tokenizer.ggml.scores", 1.0f);
  expect_named(writer, "tokenizer.ggml.scores");
  writer = with_tokens();
  writer.set_array("tokenizer.ggml.token_type", std::vector<std::string>{"normal"});
  expect_named(writer, "tokenizer.ggml.token_type");
  writer = with_tokens();
  writer.set_array("tokenizer.ggml.merges", std::vector<int32_t>{1});
  expect_named(writer, "tokenizer.ggml.merges");
  writer = with_tokens();
  writer.set("tokenizer.ggml.pre", uint32_t{1});
  expect_named(writer, "tokenizer.ggml.pre");
  writer = with_tokens();
  writer.set_array("tokenizer.ggml.precompiled_charsmap", std::vector<std::string>{"x"});
  expect_named(writer, "tokenizer.ggml.precompiled_charsmap");
}

}  // namespace
}  // namespace firstlight::adapt
