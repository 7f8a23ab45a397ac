// SPDX-License-Identifier: Apache-2.0
#include "server/choice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "server/test/fake_model.h"

namespace firstlight::server {
namespace {

using request::FinishReason;
using request::TokenEvent;

TokenEvent token(int32_t id, FinishReason finish = FinishReason::kNone) {
  TokenEvent event;
  event.token = id;
  event.finish = finish;
  return event;
}

TokenEvent stop() {
  TokenEvent event;
  event.finish = FinishReason::kStop;
  event.stop_token = fake::kEnd;
  return event;
}

TEST(Choice, JoinsToTheTextAndHoldsBackOnlyPartsOfCharacters) {
  Choice choice(fake::tokenizer(), {});
  const std::string text = "aé€😀b";
  std::string joined;
  for (const int32_t id : fake::ids_of(text)) {
    const ChoicePiece piece = choice.push(token(id));
    EXPECT_EQ(piece.text.find("\xEF\xBF\xBD"), std::string::npos);
    joined += piece.text;
  }
  EXPECT_EQ(joined, text);
  const ChoicePiece last = choice.push(stop());
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.finish, FinishReason::kStop);
  EXPECT_TRUE(choice.is_done());
  EXPECT_EQ(choice.num_tokens(), static_cast<int64_t>(text.size())) << "the stop token is not output";
}

TEST(Choice, FlushesAnUnfinishedCharacterAtTheEnd) {
  Choice choice(fake::tokenizer(), {});
  EXPECT_EQ(choice.push(token('a')).text, "a");
  EXPECT_EQ(choice.push(token(0xE2)).text, "");
  const ChoicePiece last = choice.push(token(0x82, FinishReason::kLength));
  EXPECT_EQ(last.text, "\xEF\xBF\xBD");
  EXPECT_EQ(last.finish, FinishReason::kLength);
}

TEST(Choice, EndsBeforeAStopStringThatSpansTokens) {
  Choice choice(fake::tokenizer(), {.stops = {"END"}});
  std::string joined;
  ChoicePiece piece;
  int64_t pushed = 0;
  for (const int32_t id : fake::ids_of("say EEND more")) {
    piece = choice.push(token(id));
    joined += piece.text;
    ++pushed;
    if (choice.is_done()) break;
  }
  EXPECT_EQ(joined, "say E");
  EXPECT_EQ(piece.finish, FinishReason::kStop);
  EXPECT_EQ(pushed, 8);
  EXPECT_EQ(choice.num_tokens(), 8);
  const ChoicePiece after = choice.push(token('x', FinishReason::kLength));
  EXPECT_TRUE(after.is_empty()) << "what comes after the end is not part of it";
}

TEST(Choice, ShowsAnUnfinishedStopStringAtTheEnd) {
  Choice choice(fake::tokenizer(), {.stops = {"END"}});
  EXPECT_EQ(choice.push(token('E')).text, "");
  EXPECT_EQ(choice.push(token('N')).text, "");
  EXPECT_EQ(choice.push(stop()).text, "EN");
}

TEST(Choice, FindsAStopStringInTheLastToken) {
  Choice choice(fake::tokenizer(), {.stops = {"b"}});
  EXPECT_EQ(choice.push(token('a')).text, "a");
  const ChoicePiece last = choice.push(token('b', FinishReason::kLength));
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.finish, FinishReason::kStop);
}

TEST(Choice, LogprobsAreOnePerTokenInOrderAndFinite) {
  Choice choice(fake::tokenizer(), {.stops = {"zz"}, .echo = "tenletters"});
  std::vector<LogprobEntry> entries;
  for (const int32_t id : fake::ids_of("é€z!")) {
    TokenEvent event = token(id);
    event.logprob = request::TokenLogprob{id, id == '!' ? -INFINITY : -1.0};
    event.top_logprobs = {{id, -1.0}, {5, std::nan("")}};
    for (auto& entry : choice.push(event).logprobs) entries.push_back(entry);
  }
  for (auto& entry : choice.push(stop()).logprobs) entries.push_back(entry);
  ASSERT_EQ(entries.size(), 7u);
  std::string bytes;
  for (const LogprobEntry& entry : entries) {
    bytes += entry.chosen.bytes;
    ASSERT_EQ(entry.top.size(), 2u);
    EXPECT_EQ(entry.top[1].logprob, kLeastLogprob);
  }
  EXPECT_EQ(bytes, "é€z!");
  EXPECT_EQ(entries[0].text_offset, 10);
  EXPECT_EQ(entries[2].text_offset, 11);
  EXPECT_EQ(entries[5].text_offset, 12);
  EXPECT_EQ(entries[6].text_offset, 13);
  EXPECT_EQ(entries[6].chosen.logprob, kLeastLogprob);
}

TEST(Choice, BeginsWithThePromptAndItsLogprobs) {
  std::vector<int32_t> prompt = {fake::kBos};
  for (const int32_t id : fake::ids_of("é stop")) prompt.push_back(id);
  Choice choice(
      fake::tokenizer(),
      {.stops = {"stop", "pa"}, .echo = "é stop", .scored_prompt = prompt, .prompt_offsets = {0, 0, 0, 1, 2, 3, 4, 5}});
  TokenEvent event = token('a');
  event.logprob = request::TokenLogprob{'a', -1.0};
  for (size_t i = 1; i < prompt.size(); ++i)
    event.prompt_scores.push_back({.chosen = {prompt[i], -2.0}, .top = {{'x', -0.5}}});
  const ChoicePiece piece = choice.push(event);
  EXPECT_EQ(piece.text, "é stopa") << "stop strings are for the output";
  EXPECT_FALSE(choice.is_done());
  ASSERT_EQ(piece.logprobs.size(), prompt.size() + 1);
  const std::vector<int64_t> offsets = {0, 0, 0, 1, 2, 3, 4, 5, 6};  // a control token has no text, é has two tokens
  for (size_t i = 0; i < offsets.size(); ++i) {
    EXPECT_EQ(piece.logprobs[i].text_offset, offsets[i]) << i;
    EXPECT_EQ(piece.logprobs[i].is_scored, i > 0);
  }
  EXPECT_EQ(piece.logprobs[0].chosen.bytes, "<bos>");
  EXPECT_EQ(piece.logprobs[3].chosen.logprob, -2.0);
  EXPECT_EQ(piece.logprobs[8].chosen.logprob, -1.0);
  EXPECT_EQ(choice.num_tokens(), 1);
  event.prompt_scores.clear();
  EXPECT_EQ(choice.push(event).text, "a");
}

TEST(Choice, ShowsSpecialTokensOnlyWhenAsked) {
  Choice hidden(fake::tokenizer(), {});
  EXPECT_EQ(hidden.push(token(fake::kTurn)).text, "");
  Choice shown(fake::tokenizer(), {.skip_special_tokens = false});
  EXPECT_EQ(shown.push(token(fake::kTurn)).text, "<turn>");
}

TEST(Choice, CountsCharacters) {
  EXPECT_EQ(count_characters(""), 0);
  EXPECT_EQ(count_characters("aé€😀"), 4);
}

}  // namespace
}  // namespace firstlight::server
