// SPDX-License-Identifier: Apache-2.0
// Every vocabulary against its oracle's ids on the whole corpus: the small ones of this folder, and those of ../shared.
#include <gtest/gtest.h>

#include "base/file_map.h"
#include "gguf_source.h"
#include "golden_file.h"

namespace firstlight::golden {
namespace {

constexpr text::EncodeOptions kWithSpecial = {.add_special = true, .parse_special = true};
constexpr text::EncodeOptions kParsed = {.add_special = false, .parse_special = true};
constexpr text::EncodeOptions kPlain = {.add_special = false, .parse_special = false};

std::string content_of(const std::string& path) {
  auto content = read_text_file(path);
  EXPECT_TRUE(content.ok()) << path;
  return content.ok() ? *content : std::string();
}

class TinyJson : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyJson, EqualsTheOracle) {
  const std::string name = GetParam();
  auto tokenizer = text::load_tokenizer_json(content_of(folder() + "tiny/" + name + ".json"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden("tiny-" + name, *tokenizer, kWithSpecial);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, TinyJson,
                         ::testing::Values("byte-level", "byte-fallback", "unigram", "word-piece", "end-of-word",
                                           "word-level"));

class TinyModel : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyModel, EqualsTheOracle) {
  const std::string name = GetParam();
  auto tokenizer = text::load_sentencepiece_model(content_of(folder() + "tiny/" + name + ".model"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden("tiny-" + name, *tokenizer, kPlain);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, TinyModel, ::testing::Values("sp-bpe", "sp-unigram", "sp-suffix"));

class SharedJson : public ::testing::TestWithParam<const char*> {};

TEST_P(SharedJson, EqualsTheOracle) {
  const std::string name = GetParam();
  const std::string path = shared() + "tokenizers/" + name + "/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: " << name;
  auto tokenizer = text::load_tokenizer_json(content_of(path));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden(name, *tokenizer, kWithSpecial);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, SharedJson,
                         ::testing::Values("mini-llama", "added-tokens", "torchtitan-bpe", "llama2", "t5-small"));

TEST(Shared, Qwen2VocabAndMerges) {
  const std::string path = shared() + "tokenizers/qwen2";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: qwen2";
  auto tokenizer = text::load_tokenizer(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden("qwen2", *tokenizer, kParsed);
}

Result<text::Tokenizer> load_llama3(const std::string& path) {
  text::TiktokenSpec spec;
  spec.pattern = *text::tiktoken_pattern("llama3");
  return text::load_tiktoken(content_of(path), spec);
}

TEST(Shared, Llama3Tiktoken) {
  const std::string path = shared() + "tokenizers/llama3/tokenizer_llama3.tiktoken";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: llama3";
  auto tokenizer = load_llama3(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden("llama3", *tokenizer, kPlain);
}

TEST(Shared, SentencePieceUnigram) {
  const std::string path = shared() + "tokenizers/sentencepiece-unigram/tokenizer.model";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: sentencepiece-unigram";
  auto tokenizer = text::load_sentencepiece_model(content_of(path));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden("sentencepiece-unigram", *tokenizer, kPlain);
}

TEST(Shared, RwkvWorld) {
  const std::string path = shared() + "tokenizers/rwkv-world/rwkv_vocab_v20230424.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: rwkv-world";
  auto tokenizer = text::load_rwkv_vocabulary(content_of(path));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden("rwkv-world", *tokenizer, kPlain);
}

Result<text::Tokenizer> load_gguf(const std::string& path) {
  const auto map = FL_TRY(FileMap::open(path));
  const auto file = FL_TRY(formats::GgufFile::parse(map.bytes()));
  const auto vocabulary = FL_TRY(read_gguf_vocabulary(file));
  return text::load_gguf_vocabulary(vocabulary);
}

struct GgufCase {
  const char* name;
  const char* path;  // under ../shared/data
};

class SharedGguf : public ::testing::TestWithParam<GgufCase> {};

TEST_P(SharedGguf, EqualsTheOracle) {
  const std::string path = shared() + GetParam().path;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: " << GetParam().path;
  auto tokenizer = load_gguf(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden(GetParam().name, *tokenizer, kParsed);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, SharedGguf,
                         ::testing::Values(GgufCase{"gguf-bert-bge", "gguf-vocab/ggml-vocab-bert-bge.gguf"},
                                           GgufCase{"gguf-deepseek-coder", "gguf-vocab/ggml-vocab-deepseek-coder.gguf"},
                                           GgufCase{"gguf-falcon", "gguf-vocab/ggml-vocab-falcon.gguf"},
                                           GgufCase{"gguf-gpt-2", "gguf-vocab/ggml-vocab-gpt-2.gguf"},
                                           GgufCase{"gguf-llama-spm", "gguf-vocab/ggml-vocab-llama-spm.gguf"},
                                           GgufCase{"gguf-phi-3", "gguf-vocab/ggml-vocab-phi-3.gguf"},
                                           GgufCase{"gguf-stories260K",
                                                    "checkpoints/stories260K/stories260K-f32.gguf"}),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The texts and ids that come with the vocabularies.
void expect_listed(const std::string& name, const text::Tokenizer& tokenizer) {
  const std::string base = shared() + "gguf-vocab/ggml-vocab-" + name + ".gguf";
  const std::string texts = content_of(base + ".inp");
  std::istringstream rows(content_of(base + ".out"));
  constexpr std::string_view kEnd = "\n__ggml_vocab_test__\n";
  size_t num_texts = 0;
  for (size_t pos = 0, end = 0; (end = texts.find(kEnd, pos)) != std::string::npos;
       pos = end + kEnd.size(), ++num_texts) {
    std::string line;
    ASSERT_TRUE(std::getline(rows, line));
    std::istringstream words(line);
    std::vector<int32_t> wanted;
    for (int32_t id = 0; words >> id;) wanted.push_back(id);
    const std::string text = texts.substr(pos, end - pos);
    EXPECT_EQ(*tokenizer.encode(text, kPlain), wanted) << name << ": " << text;
  }
  EXPECT_EQ(num_texts, 46u) << name;
}

class ListedGguf : public ::testing::TestWithParam<const char*> {};

TEST_P(ListedGguf, EqualsTheListedIds) {
  const std::string name = GetParam();
  const std::string path = shared() + "gguf-vocab/ggml-vocab-" + name + ".gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: " << name;
  auto tokenizer = load_gguf(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_listed(name, *tokenizer);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, ListedGguf,
                         ::testing::Values("bert-bge", "deepseek-coder", "falcon", "gpt-2", "llama-spm", "phi-3"));

TEST(ListedGguf, LlamaBpeThroughTiktokenAndQwen2ThroughMerges) {
  if (!std::filesystem::exists(shared() + "tokenizers/llama3")) GTEST_SKIP() << "needs shared data: llama3, qwen2";
  auto llama3 = load_llama3(shared() + "tokenizers/llama3/tokenizer_llama3.tiktoken");
  ASSERT_TRUE(llama3.ok());
  expect_listed("llama-bpe", *llama3);
  auto qwen2 = text::load_tokenizer(shared() + "tokenizers/qwen2");
  ASSERT_TRUE(qwen2.ok());
  expect_listed("qwen2", *qwen2);
}

// The two real models: found through the environment, since their files come from a package index.
struct ModelCase {
  const char* name;
  const char* variable;
};

class ModelGguf : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ModelGguf, EqualsTheOracle) {
  const char* path = std::getenv(GetParam().variable);
  if (path == nullptr) GTEST_SKIP() << "set " << GetParam().variable << " to the GGUF file";
  auto tokenizer = load_gguf(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  expect_golden(GetParam().name, *tokenizer, kParsed);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, ModelGguf,
                         ::testing::Values(ModelCase{"gguf-smollm2", "FIRSTLIGHT_SMOLLM2_GGUF"},
                                           ModelCase{"gguf-gemma3", "FIRSTLIGHT_GEMMA3_GGUF"}),
                         [](const auto& tested) { return std::string(tested.param.name).substr(5); });

}  // namespace
}  // namespace firstlight::golden
