// SPDX-License-Identifier: Apache-2.0
// Token by token decoding against decoding in one go, on random ids of the small vocabularies: any order of ids, broken
// UTF-8 included, must give the same text.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/file_map.h"
#include "text/unicode.h"

namespace firstlight::text {
namespace {

Tokenizer load_tiny(const std::string& name) {
  const std::string path = std::string(FL_SOURCE_DIR) + "/tests/golden/tokenizers/tiny/" + name;
  const auto content = read_text_file(path);
  FL_CHECK(content.ok());
  auto tokenizer = name.ends_with(".json") ? load_tokenizer_json(*content) : load_sentencepiece_model(*content);
  FL_CHECK(tokenizer.ok());
  return *tokenizer;
}

class DetokenizerTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DetokenizerTest, JoinedDeltasEqualTheWhole) {
  const Tokenizer tokenizer = load_tiny(GetParam());
  std::mt19937 random(7);
  Detokenizer detokenizer(tokenizer, {.skip_special = true});
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> ids(random() % 12);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer.vocab_size() + 2)) - 1;
    std::string joined;
    for (int32_t id : ids) {
      const std::string delta = detokenizer.push(id);
      ASSERT_TRUE(is_valid_utf8(delta));
      joined += delta;
    }
    joined += detokenizer.flush();
    ASSERT_EQ(joined, tokenizer.decode(ids));
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, DetokenizerTest,
                         ::testing::Values("byte-level.json", "byte-fallback.json", "unigram.json", "word-piece.json",
                                           "end-of-word.json", "word-level.json", "sp-bpe.model", "sp-unigram.model",
                                           "sp-suffix.model"));

TEST(Detokenizer, HoldsBackOnlyAnIncompleteCharacter) {
  const Tokenizer tokenizer = load_tiny("byte-fallback.json");
  const auto byte = [&](const char* token) { return *tokenizer.token_to_id(token); };
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.push(byte("<0xF0>")), "");
  EXPECT_EQ(detokenizer.push(byte("<0x9F>")), "");
  EXPECT_EQ(detokenizer.push(byte("<0x91>")), "");
  EXPECT_EQ(detokenizer.push(byte("<0x8D>")), "\xF0\x9F\x91\x8D");
  // A byte that can begin no character comes at once; an incomplete one is given up as soon as it can not be completed.
  EXPECT_EQ(detokenizer.push(byte("<0xFF>")), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.push(byte("<0xE2>")), "");
  EXPECT_EQ(detokenizer.push(byte("a")),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(detokenizer.push(byte("<0xE2>")), "");
  EXPECT_EQ(detokenizer.flush(), "\xEF\xBF\xBD");
}

TEST(Detokenizer, LeadingSpaceIsDroppedOnceAndTheNextOneKept) {
  const Tokenizer tokenizer = load_tiny("byte-fallback.json");
  const auto ids = tokenizer.encode("the river", {.add_special = false});
  ASSERT_TRUE(ids.ok());
  Detokenizer detokenizer(tokenizer);
  std::string joined;
  for (int32_t id : *ids) joined += detokenizer.push(id);
  EXPECT_EQ(joined, "the river");
  EXPECT_EQ(detokenizer.flush(), "");
  // After flush a new text begins.
  EXPECT_EQ(detokenizer.push(*tokenizer.token_to_id("\xE2\x96\x81")), "");
  EXPECT_EQ(detokenizer.push(*tokenizer.token_to_id("\xE2\x96\x81")), " ");
}

TEST(Detokenizer, SpecialTokensOnlyWhenAskedFor) {
  const Tokenizer tokenizer = load_tiny("byte-level.json");
  const int32_t special = *tokenizer.token_to_id("<|im_start|>");
  EXPECT_EQ(Detokenizer(tokenizer).push(special), "");
  EXPECT_EQ(Detokenizer(tokenizer, {.skip_special = false}).push(special), "<|im_start|>");
  EXPECT_EQ(Detokenizer(tokenizer).push(-5), "");
  EXPECT_EQ(Detokenizer(tokenizer).push(1 << 30), "");
}

}  // namespace
}  // namespace firstlight::text
