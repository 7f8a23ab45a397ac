// SPDX-License-Identifier: Apache-2.0
#include "gates/calibration.h"

#include <gtest/gtest.h>

#include <set>

#include "adapt/test/golden_model.h"

namespace firstlight::gates {
namespace {

TEST(Calibration, IsCutAndBeginsAsTheTokenizerSays) {
  const adapt::TestFolder folder;
  folder.copy_golden();
  adapt::TextAssets none;
  const auto ids = calibration_tokens(none, std::nullopt, "", 64, 40);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->tokens.size(), 40u);
  EXPECT_GT(std::set<int32_t>(ids->tokens.begin(), ids->tokens.end()).size(), 20u);
  EXPECT_FALSE(calibration_tokens(none, "some text", "FILE", 64, 40).ok()) << "a text needs a tokenizer";
  adapt::write_text(folder / "tokenizer.json", adapt::character_tokenizer());
  const auto assets = adapt::load_text_assets(folder.path(), nullptr);
  const auto own = calibration_tokens(assets, "abcabc", "FILE", 64, 4);
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  EXPECT_EQ(own->tokens.size(), 4u);
  EXPECT_EQ(own->origin, "FILE");
  EXPECT_GT(calibration_tokens(assets, std::nullopt, "", 64, 5000)->tokens.size(), 1500u);
  EXPECT_FALSE(calibration_tokens(assets, "a", "FILE", 64, 4).ok());
}

}  // namespace
}  // namespace firstlight::gates
