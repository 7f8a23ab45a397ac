// SPDX-License-Identifier: Apache-2.0
#include "gates/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "adapt/test/golden_model.h"
#include "text/chat_template.h"

namespace firstlight::gates {
namespace {

class GoldenTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = adapt::bring_up_golden(); }
  static void TearDownTestSuite() { model_ = nullptr; }
  void SetUp() override { ASSERT_NE(model_, nullptr); }
  static Golden recording() {
    auto golden = read_golden(adapt::golden_path());
    EXPECT_TRUE(golden.ok()) << golden.status().message();
    return *golden;
  }
  static GoldenCheck check(const Golden& golden) {
    const auto result = reproduce(*model_->executor, golden);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return *result;
  }
  static inline std::unique_ptr<adapt::LoadedModel> model_;
};

TEST_F(GoldenTest, ARecordingOfAnotherEngineIsReproduced) {
  const Golden golden = recording();
  EXPECT_EQ(golden.tokens, adapt::golden_ids("prompt"));
  EXPECT_EQ(golden.num_prompt, static_cast<int64_t>(golden.tokens.size()));
  EXPECT_NE(golden.origin.find("transformers"), std::string::npos) << golden.origin;
  const GoldenCheck found = check(golden);
  EXPECT_TRUE(found.passed);
  EXPECT_EQ(found.rows, golden.num_prompt);
  EXPECT_EQ(found.first_wrong, -1);
  EXPECT_LE(found.worst_rel_l2, found.bound);
  EXPECT_GT(found.worst_rel_l2, 0) << "two engines do not agree to the last bit";
  EXPECT_GT(found.least_cosine, 1 - 1e-6);
}

TEST_F(GoldenTest, WhatTheReferenceMakesIsWhatTheRecordingHolds) {
  const auto prompt = adapt::golden_ids("prompt"), continuation = adapt::golden_ids("continuation");
  const auto made = make_golden(*model_, adapt::quick_options(), prompt, 5);
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->tokens.size(), prompt.size() + 5);
  EXPECT_EQ(std::vector<int32_t>(made->tokens.begin() + made->num_prompt, made->tokens.end()),
            std::vector<int32_t>(continuation.begin(), continuation.begin() + 5));
  EXPECT_EQ(made->logits.size(), made->tokens.size()) << "a row per position";
  const Golden golden = recording();
  for (size_t i = 0; i < golden.logits.size(); ++i) {
    EXPECT_LE(compare_rows(made->logits[i], golden.logits[i], 2e-5).rel_l2, 2e-5) << i;
  }
  EXPECT_TRUE(check(*made).passed);
}

TEST_F(GoldenTest, ShortPromptsWork) {
  const auto one = make_golden(*model_, adapt::quick_options(), {5}, 0);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(one->logits.size(), 1u);
  EXPECT_TRUE(check(*one).passed);
  EXPECT_EQ(make_golden(*model_, adapt::quick_options(), {}, 4).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(make_golden(*model_, adapt::quick_options(), {64}, 4).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(GoldenTest, AWrongRowIsFoundAtItsPlace) {
  Golden golden = recording();
  golden.logits[7][3] += 0.5f;
  golden.logits[9][3] += 0.5f;
  const GoldenCheck found = check(golden);
  EXPECT_FALSE(found.passed);
  EXPECT_EQ(found.first_wrong, 7);
  EXPECT_GT(found.worst_rel_l2, found.bound);
  EXPECT_NEAR(found.worst_max_abs, 0.5, 1e-3);
}

TEST_F(GoldenTest, NotANumberIsToldAsSuch) {
  Golden golden = recording();
  golden.logits[4][0] = std::numeric_limits<float>::quiet_NaN();
  const GoldenCheck found = check(golden);
  EXPECT_FALSE(found.passed);
  EXPECT_EQ(found.first_wrong, 4);
  EXPECT_TRUE(std::isnan(found.worst_rel_l2)) << "later, better rows do not hide it";
}

// Overwrites the last number of a file of float32 tensors.
void spoil(const std::string& path) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-static_cast<std::streamoff>(sizeof(nan)), std::ios::end);
  file.write(reinterpret_cast<const char*>(&nan), sizeof(nan));
}

TEST_F(GoldenTest, ABaselineThatIsNoNumberIsNone) {
  const adapt::TestFolder folder;
  folder.copy_golden();
  spoil(folder / "golden.safetensors");
  const auto recorded = read_golden(folder.path());
  EXPECT_EQ(recorded.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(recorded.status().message().find("NaN"), std::string::npos) << recorded.status().message();
  spoil(folder / "model.safetensors");
  const auto broken = bring_up(folder.path(), adapt::quick_options());
  ASSERT_TRUE(broken.ok()) << broken.status().message();
  const auto made = make_golden(**broken, adapt::quick_options(), {5, 6}, 3);
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(made.status().message().find("position 0"), std::string::npos) << made.status().message();
}

TEST_F(GoldenTest, RowsMayBeginLater) {
  Golden golden = recording();
  golden.first_row = 10;
  golden.logits.erase(golden.logits.begin(), golden.logits.begin() + 10);
  EXPECT_TRUE(check(golden).passed);
  golden.logits[2][0] += 1;
  EXPECT_EQ(check(golden).first_wrong, 12);
}

TEST_F(GoldenTest, AGoldenOfAnotherShapeIsNoVerdict) {
  Golden golden = recording();
  golden.logits.pop_back();
  EXPECT_EQ(reproduce(*model_->executor, golden).status().code(), StatusCode::kInvalidData);
  golden = recording();
  for (auto& row : golden.logits) row.push_back(0);
  const auto wide = reproduce(*model_->executor, golden);
  EXPECT_EQ(wide.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(wide.status().message().find("65"), std::string::npos) << wide.status().message();
  golden = recording();
  golden.tokens[0] = 64;
  EXPECT_EQ(reproduce(*model_->executor, golden).status().code(), StatusCode::kInvalidArgument);
}

TEST(ReadGolden, NamesTheFileAndTheFault) {
  EXPECT_EQ(read_golden("/no/such/pack").status().code(), StatusCode::kNotFound);
  const adapt::TestFolder folder;
  folder.copy_golden();
  for (const char* text : {"", "[]", "{}", R"({"prompt":[]})", R"({"prompt":7})", R"({"prompt":["a"]})",
                           R"({"prompt":[1.5]})", R"({"prompt":[-1]})", R"({"prompt":[4294967297]})",
                           R"({"prompt":[18446744073709551617]})", R"({"prompt":[1,2]})"}) {
    adapt::write_text(folder / "golden.json", text);
    const Status status = read_golden(folder.path()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidData) << text;
    EXPECT_NE(status.message().find(folder / "golden."), std::string::npos) << status.message();
  }
  folder.copy_golden();
  adapt::write_text(folder / "golden.safetensors", "short");
  EXPECT_EQ(read_golden(folder.path()).status().code(), StatusCode::kInvalidData);
}

TEST(DefaultGoldenPrompt, IsTextWhereThereIsATokenizer) {
  const adapt::TestFolder folder;
  adapt::write_text(folder / "tokenizer.json", adapt::character_tokenizer());
  const adapt::TextAssets assets = adapt::load_text_assets(folder.path(), nullptr);
  ASSERT_TRUE(assets.tokenizer.has_value()) << assets.tokenizer_error;
  const auto ids = default_golden_prompt(assets, 64);
  EXPECT_EQ(assets.tokenizer->decode(ids).find("he sun"), 0u) << "of single characters, and no T among them";
}

TEST(DefaultGoldenPrompt, IsSpreadOverTheVocabularyWhereThereIsNone) {
  const auto ids = default_golden_prompt(adapt::TextAssets(), 900);
  EXPECT_EQ(ids, (std::vector<int32_t>{100, 200, 300, 400, 500, 600, 700, 800}));
  for (const int32_t id : default_golden_prompt(adapt::TextAssets(), 1)) EXPECT_EQ(id, 0);
}

}  // namespace
}  // namespace firstlight::gates
