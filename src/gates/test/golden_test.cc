// SPDX-License-Identifier: Apache-2.0
#include "gates/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "adapt/test/golden_model.h"
#include "adapt/twin.h"
#include "align/sketch.h"
#include "text/chat_template.h"

namespace firstlight::gates {
namespace {

class GoldenTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = adapt::bring_up_golden(); }
  static void TearDownTestSuite() { model_ = nullptr; }
  void SetUp() override { ASSERT_NE(model_, nullptr); }
  static std::string pack_path(const std::string& name = "llama.transformers") {
    return std::string(FL_SOURCE_DIR) + "/tests/golden/packs/" + name;
  }
  static Golden recording() {
    auto golden = read_golden(pack_path());
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
  ASSERT_EQ(golden.prompts.size(), 1u);
  const GoldenPrompt& prompt = golden.prompts[0];
  const auto ids = adapt::golden_ids("prompt");
  EXPECT_EQ(std::vector<int32_t>(prompt.tokens.begin(), prompt.tokens.begin() + prompt.num_prompt),
            std::vector<int32_t>(ids.begin(), ids.begin() + 12));
  EXPECT_EQ(prompt.tokens.size(), 15u) << "and three tokens it goes on with";
  EXPECT_EQ(prompt.rows.size(), 12u);
  EXPECT_NE(golden.origin.find("transformers"), std::string::npos) << golden.origin;
  const GoldenCheck found = check(golden);
  EXPECT_TRUE(found.passed);
  EXPECT_EQ(found.rows, 12);
  EXPECT_EQ(found.first_wrong, -1);
  EXPECT_LE(found.worst_rel_l2, found.bound);
  EXPECT_GT(found.worst_rel_l2, 0) << "two engines do not agree to the last bit";
  EXPECT_GT(found.least_cosine, 1 - 1e-6);
}

TEST_F(GoldenTest, WhatTheReferenceMakesIsWhatTheRecordingHolds) {
  const Golden golden = recording();
  const GoldenPrompt& wanted = golden.prompts[0];
  const std::vector<int32_t> prompt(wanted.tokens.begin(), wanted.tokens.begin() + wanted.num_prompt);
  const auto made = make_golden(*model_, adapt::quick_options(), prompt, 3);
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->prompts.size(), 1u);
  EXPECT_EQ(made->prompts[0].tokens, wanted.tokens) << "the continuation too";
  EXPECT_EQ(made->prompts[0].rows.size(), wanted.tokens.size()) << "a row per position";
  for (size_t i = 0; i < wanted.rows.size(); ++i) {
    EXPECT_LE(compare_row(made->prompts[0].rows[i].logits, wanted.rows[i], -1, golden.sketch_seed).rel_l2, 2e-5) << i;
  }
  EXPECT_TRUE(check(*made).passed);
}

TEST_F(GoldenTest, EveryPathGivesTheSameRows) {
  const auto made = make_golden(*model_, adapt::quick_options(), adapt::golden_ids("prompt"), 4);
  ASSERT_TRUE(made.ok()) << made.status().message();
  for (const Path& path : {Path{.name = "whole"},
                           {.name = "pieces", .piece = 5},
                           {.name = "one by one", .stepwise = 36},
                           {.name = "the end", .piece = 7, .stepwise = 9}}) {
    const auto rows = compare_prompt(*model_->executor, *made, made->prompts[0], path);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    ASSERT_EQ(rows->size(), 40u) << path.name;
    for (const RowResult& row : *rows) EXPECT_LE(row.rel_l2, 1e-6) << path.name << " " << row.position;
    EXPECT_TRUE((*rows)[3].scored);
    EXPECT_FALSE((*rows)[39].scored) << "nothing follows the last token";
  }
}

TEST_F(GoldenTest, ShortPromptsWork) {
  const auto one = make_golden(*model_, adapt::quick_options(), {5}, 0);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(one->prompts[0].rows.size(), 1u);
  EXPECT_TRUE(check(*one).passed);
  EXPECT_EQ(make_golden(*model_, adapt::quick_options(), {}, 4).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(make_golden(*model_, adapt::quick_options(), {64}, 4).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(GoldenTest, AWrongRowIsFoundAtItsPlace) {
  auto golden = make_golden(*model_, adapt::quick_options(), adapt::golden_ids("prompt"), 0);
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  for (const size_t row : {7u, 9u}) golden->prompts[0].rows[row].logits[3] += 0.5f;
  const GoldenCheck found = check(*golden);
  EXPECT_FALSE(found.passed);
  EXPECT_EQ(found.first_wrong, 7);
  EXPECT_GT(found.worst_rel_l2, found.bound);
  EXPECT_NEAR(found.worst_max_abs, 0.5, 1e-3);
}

// A pack keeps the last row whole, of the others norm, sketch and largest.
TEST_F(GoldenTest, RowsThatAPackDidNotKeepAreKnownByTheirSketches) {
  Golden golden = recording();
  EXPECT_FALSE(golden.prompts[0].rows[11].logits.empty());
  EXPECT_TRUE(golden.prompts[0].rows[4].logits.empty());
  for (float& value : golden.prompts[0].rows[4].sketch) value *= 1.001f;
  const GoldenCheck found = check(golden);
  EXPECT_FALSE(found.passed);
  EXPECT_EQ(found.first_wrong, 4);
  EXPECT_NEAR(found.worst_rel_l2, 1e-3, 3e-4);
}

TEST_F(GoldenTest, NotANumberIsToldAsSuch) {
  Golden golden = recording();
  golden.prompts[0].rows[11].logits[0] = std::numeric_limits<float>::quiet_NaN();
  const GoldenCheck found = check(golden);
  EXPECT_FALSE(found.passed);
  EXPECT_EQ(found.first_wrong, 11);
  EXPECT_TRUE(std::isnan(found.worst_rel_l2)) << "better rows do not hide it";
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
  spoil(folder / "model.safetensors");
  const auto broken = bring_up(folder.path(), adapt::quick_options());
  ASSERT_TRUE(broken.ok()) << broken.status().message();
  const auto made = make_golden(**broken, adapt::quick_options(), {5, 6}, 3);
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(made.status().message().find("position 0"), std::string::npos) << made.status().message();
  auto pack = align::read_pack(pack_path());
  ASSERT_TRUE(pack.ok());
  const auto tap = std::find_if(pack->taps.begin(), pack->taps.end(), [](const auto& t) { return t.name == "logits"; });
  ASSERT_NE(tap, pack->taps.end());
  pack->prompts[0].taps[static_cast<size_t>(tap - pack->taps.begin())].rows[5] =
      std::numeric_limits<float>::quiet_NaN();
  const auto golden = golden_of(*pack, "spoiled");
  EXPECT_EQ(golden.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(golden.status().message().find("spoiled"), std::string::npos) << golden.status().message();
}

TEST_F(GoldenTest, APackWithoutLogitsIsNoGolden) {
  auto pack = align::read_pack(pack_path());
  ASSERT_TRUE(pack.ok());
  for (auto& tap : pack->taps) tap.name += " of another";
  EXPECT_EQ(golden_of(*pack, "p").status().code(), StatusCode::kInvalidData);
  EXPECT_EQ(golden_of({}, "p").status().code(), StatusCode::kInvalidData);
}

TEST_F(GoldenTest, AGoldenOfAnotherShapeIsNoVerdict) {
  Golden golden = recording();
  golden.prompts[0].rows.back().position = 20;
  EXPECT_EQ(reproduce(*model_->executor, golden).status().code(), StatusCode::kInvalidData);
  golden = recording();
  golden.vocabulary = 65;
  const auto wide = reproduce(*model_->executor, golden);
  EXPECT_EQ(wide.status().code(), StatusCode::kInvalidData);
  EXPECT_NE(wide.status().message().find("65"), std::string::npos) << wide.status().message();
  golden = recording();
  golden.prompts[0].tokens[0] = 64;
  EXPECT_EQ(reproduce(*model_->executor, golden).status().code(), StatusCode::kInvalidArgument);
}

// Turns the sign of a part of a tensor in a file: the `part`-th of `parts` equal ones.
void corrupt(const adapt::LoadedModel& model, const std::string& folder, const std::string& tensor, uint64_t part,
             uint64_t parts) {
  const formats::TensorRecord* record = model.checkpoint->find(tensor);
  ASSERT_NE(record, nullptr) << tensor;
  std::fstream file(folder + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes(record->size_bytes / parts, '\0');
  const auto place = static_cast<std::streamoff>(record->offset + part * bytes.size());
  file.seekg(place);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const size_t width = record->size_bytes / static_cast<uint64_t>(record->num_elements());
  for (size_t i = width - 1; i < bytes.size(); i += width) bytes[i] = static_cast<char>(bytes[i] ^ '\x80');
  file.seekp(place);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// The prompts that readiness may ask of a model without a tokenizer, and of one with; then what the golden has become.
struct RoutedCheck {
  GoldenCheck exact, check;
  Golden golden;
};
RoutedCheck check_routed(const adapt::LoadedModel& model, const adapt::BringUpOptions& options,
                         const std::vector<int32_t>& prompt) {
  RoutedCheck out;
  auto golden = make_golden(model, options, prompt, 4);
  EXPECT_TRUE(golden.ok()) << golden.status().message();
  EXPECT_TRUE(golden->routed);
  out.exact = reproduce(*model.executor, *golden).value();
  EXPECT_TRUE(add_rounded(*golden, model, options).ok());
  EXPECT_EQ(golden->prompts[0].rounded[0].size(), golden->prompts[0].rows.size());
  out.check = reproduce(*model.executor, *golden).value();
  out.golden = std::move(*golden);
  return out;
}

// The prompts of readiness: of a model without a tokenizer, and of one with one that knows characters.
std::vector<std::vector<int32_t>> readiness_prompts() {
  const adapt::TestFolder folder;
  adapt::write_text(folder / "tokenizer.json", adapt::character_tokenizer());
  const adapt::TextAssets assets = adapt::load_text_assets(folder.path(), nullptr);
  return {default_golden_prompt({}, 64), default_golden_prompt(assets, 64)};
}

// bfloat16 on the cpu backend: where two experts' scores are closer than its rounding, either may be taken. Random
// weights: seed 4 turns two rows of many, seed 5 one of the first tokens' choices, which all that follow see. Readiness
// tries another prompt then (cli/serving.cc).
TEST(RoutedGolden, AChoiceThatRoundingTurnsIsNoFault) {
  const adapt::BringUpOptions options = adapt::quick_options(catalog::Backend::kCpu);
  const adapt::TestFolder source;
  std::filesystem::copy_file(std::string(FL_SOURCE_DIR) + "/tests/golden/twins/gpt_oss.config.json",
                             source / "config.json");
  int64_t turned = 0;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{4}, uint64_t{5}}) {
    const adapt::TestFolder folder;
    ASSERT_TRUE(adapt::make_twin(source.path(), folder / "twin", {.seed = seed, .intake = {}}).ok());
    const auto model = adapt::bring_up(folder / "twin", options);
    ASSERT_TRUE(model.ok()) << model.status().message();
    int passed = 0;
    for (const auto& ids : readiness_prompts()) {
      const RoutedCheck found = check_routed(**model, options, ids);
      passed += found.check.passed ? 1 : 0;
      turned += found.check.turned;
    }
    EXPECT_GE(passed, 1) << seed;
  }
  EXPECT_GT(turned, 0) << "no row turned";
}

TEST(RoutedGolden, APackIsNotJoinedByRowsOfTheFilesItJudges) {
  const auto model = adapt::bring_up_golden();
  ASSERT_NE(model, nullptr);
  auto golden = read_golden(std::string(FL_SOURCE_DIR) + "/tests/golden/packs/llama.transformers");
  ASSERT_TRUE(golden.ok());
  EXPECT_EQ(add_rounded(*golden, *model, adapt::quick_options()).code(), StatusCode::kInvalidArgument);
}

TEST(RoutedGolden, AWrongWeightIsOneStill) {
  const adapt::BringUpOptions options = adapt::quick_options(catalog::Backend::kCpu);
  const auto model = adapt::bring_up_golden(options, "gpt_oss");
  ASSERT_NE(model, nullptr);
  const std::vector<int32_t> prompt = readiness_prompts()[1];
  const RoutedCheck sound = check_routed(*model, options, prompt);
  const std::string layer = "model.layers.1.";
  struct Fault {
    std::string tensor;
    uint64_t part, parts;
  };
  for (const Fault& fault : {Fault{layer + "self_attn.o_proj.weight", 0, 1},
                             {layer + "mlp.experts.down_proj", 0, 1},
                             {layer + "mlp.experts.gate_up_proj", 1, 3},
                             {layer + "mlp.router.weight", 0, 2},
                             {layer + "input_layernorm.weight", 1, 2},
                             {"model.norm.weight", 0, 4},
                             {"lm_head.weight", 2, 8}}) {
    const adapt::TestFolder folder;
    folder.copy_golden("gpt_oss");
    corrupt(*model, folder.path(), fault.tensor, fault.part, fault.parts);
    const auto broken = adapt::bring_up(folder.path(), options);
    ASSERT_TRUE(broken.ok()) << broken.status().message();
    EXPECT_FALSE(reproduce(*(*broken)->executor, sound.golden)->passed) << fault.tensor;
  }
}

TEST(ReadGolden, NamesTheFileAndTheFault) {
  EXPECT_EQ(read_golden("/no/such/pack").status().code(), StatusCode::kNotFound);
  const adapt::TestFolder folder;
  for (const char* text : {"", "[]", "{}", R"({"format":"firstlight.golden_pack","version":99})"}) {
    adapt::write_text(folder / "manifest.json", text);
    const Status status = read_golden(folder.path()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidData) << text;
    EXPECT_NE(status.message().find(folder.path()), std::string::npos) << status.message();
  }
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
