// SPDX-License-Identifier: Apache-2.0
#include "gates/golden_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "adapt/test/golden_model.h"
#include "text/chat_template.h"

namespace firstlight::gates {
namespace {

TEST(PositionsToCheck, StandOnBothSidesOfEveryHorizon) {
  const std::vector<Horizon> horizons = {{"a window", 100}, {"a run", 200}};
  const auto positions = positions_to_check(230, horizons, 64);
  EXPECT_LE(positions.size(), 64u);
  EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
  for (const int64_t wanted : {0, 99, 100, 199, 200, 214, 229})
    EXPECT_TRUE(std::binary_search(positions.begin(), positions.end(), wanted)) << wanted;
  EXPECT_EQ(positions_to_check(7, horizons, 64), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(positions_to_check(1, {}, 64), (std::vector<int64_t>{0}));
}

TEST(GoldenTokens, AreTheTextOfTheTokenizerAsLongAsAsked) {
  const adapt::TestFolder folder;
  adapt::write_text(folder / "tokenizer.json", adapt::character_tokenizer());
  const adapt::TextAssets assets = adapt::load_text_assets(folder.path(), nullptr);
  ASSERT_TRUE(assets.tokenizer.has_value()) << assets.tokenizer_error;
  const auto ids = golden_tokens(assets, 64, 300);
  EXPECT_EQ(ids.size(), 300u);
  EXPECT_NE(assets.tokenizer->decode(ids).find("harbour master kept two clocks"), std::string::npos);
  EXPECT_EQ(golden_tokens(assets, 64, 20000).size(), 20000u) << "longer than the text";
  const auto few = golden_tokens(assets, 10, 300);
  EXPECT_TRUE(std::all_of(few.begin(), few.end(), [](int32_t id) { return id < 10; }))
      << "a tokenizer of another model";
}

TEST(GoldenTokens, AreTheSameEachTimeWithoutOne) {
  const auto ids = golden_tokens(adapt::TextAssets(), 50, 100);
  EXPECT_EQ(ids, golden_tokens(adapt::TextAssets(), 50, 100));
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_TRUE(std::all_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 0 && id < 50; }));
}

}  // namespace
}  // namespace firstlight::gates
