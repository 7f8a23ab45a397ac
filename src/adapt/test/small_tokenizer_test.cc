// SPDX-License-Identifier: Apache-2.0
#include "adapt/small_tokenizer.h"

#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace firstlight::adapt {
namespace {

TEST(SmallTokenizer, EveryByteIsAToken) {
  const auto tokenizer = text::load_tokenizer_json(small_tokenizer_json(), small_tokenizer_config());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  const std::string text = "Grüße, 世界!\n\t0 — ~";
  const auto ids = tokenizer->encode(text);
  ASSERT_TRUE(ids.ok()) << ids.status().to_string();
  ASSERT_EQ(ids->size(), text.size());
  for (size_t i = 0; i < text.size(); ++i) EXPECT_EQ((*ids)[i], static_cast<unsigned char>(text[i]));
  EXPECT_EQ(tokenizer->decode(*ids), text);
  EXPECT_EQ(tokenizer->bos_id(), kSmallBos);
  EXPECT_EQ(tokenizer->eos_id(), kSmallEos);
  EXPECT_EQ(tokenizer->pad_id(), kSmallPad);
  EXPECT_LE(tokenizer->vocab_size(), kSmallVocabulary);
  EXPECT_EQ(tokenizer->encode("a<|end|>").value(), (std::vector<int32_t>{'a', 257}));
}

}  // namespace
}  // namespace firstlight::adapt
