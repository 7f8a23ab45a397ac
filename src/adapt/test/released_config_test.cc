// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json of a released checkpoint, from a derived config.
#include "adapt/released_config.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace firstlight::adapt {
namespace {

Json config_of(const char* derived, bool tied, std::vector<std::string>& warnings) {
  intake::ReleasedForm form;
  form.config = *intake::parse_config_tree(derived);
  form.model.tokens.bos = 1;
  form.model.tokens.eos = {{2, "GGUF"}, {7, "GGUF"}};
  return *parse_json(released_config_text(form, tensor::DType::kBF16, tied, warnings));
}

TEST(ReleasedConfig, RopeInTheOlderSpelling) {
  std::vector<std::string> warnings;
  const Json config = config_of(R"({"model_type": "qwen3", "tie_word_embeddings": false, "rope_parameters":
      {"rope_theta": 5e5, "rope_type": "yarn", "factor": 4.0, "partial_rotary_factor": 0.5}})",
                                true, warnings);
  EXPECT_TRUE(warnings.empty());
  EXPECT_FALSE(config.contains("rope_parameters"));
  EXPECT_EQ(config["rope_theta"], 5e5);
  EXPECT_EQ(config["partial_rotary_factor"], 0.5);
  EXPECT_EQ(config["rope_scaling"], (Json{{"rope_type", "yarn"}, {"factor", 4.0}}));
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
  EXPECT_EQ(config["eos_token_id"], (Json{2, 7}));
  EXPECT_EQ(config.begin().key(), "model_type");
}

TEST(ReleasedConfig, PlainRopeHasNoScaling) {
  std::vector<std::string> warnings;
  const Json config = config_of(R"({"rope_parameters": {"rope_type": "default"}})", false, warnings);
  EXPECT_FALSE(config.contains("rope_scaling"));
  EXPECT_EQ(config["rope_theta"], 10000.0);
}

TEST(ReleasedConfig, AFamilyThatNeverHadTheOlderSpellingKeepsItsRope) {
  std::vector<std::string> warnings;
  const Json config =
      config_of(R"({"rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})",
                false, warnings);
  EXPECT_EQ(config["rope_parameters"]["full_attention"]["rope_theta"], 1e6);
  EXPECT_FALSE(config.contains("rope_theta"));
}

TEST(ReleasedConfig, GenerationConfigNamesOneEndAsANumber) {
  intake::TokenFacts tokens;
  tokens.eos[3] = "GGUF";
  tokens.pad = 0;
  EXPECT_EQ(*parse_json(generation_config_text(tokens)), (Json{{"eos_token_id", 3}, {"pad_token_id", 0}}));
}

}  // namespace
}  // namespace firstlight::adapt
