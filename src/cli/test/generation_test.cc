// SPDX-License-Identifier: Apache-2.0
// One prompt through the engine, on a golden model whose continuation is known, with a tokenizer of single characters.
#include "cli/generation.h"

#include <gtest/gtest.h>

#include <numeric>

#include "adapt/test/golden_model.h"
#include "text/chat_template.h"

namespace firstlight::cli {
namespace {

using adapt::as_characters;

class GenerationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new adapt::TestFolder;
    folder_->copy_golden();
    adapt::write_text(*folder_ / "tokenizer.json", adapt::character_tokenizer());
    const Json config = {
        {"bos_token", "<s>"},
        {"chat_template", "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"}};
    adapt::write_text(*folder_ / "tokenizer_config.json", dump_json(config));
    session_ = new Session;
    auto loaded = adapt::bring_up(folder_->path(), adapt::quick_options());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    session_->loaded = std::move(*loaded);
    session_->text = adapt::load_text_assets(folder_->path(), session_->loaded->checkpoint.get());
    ASSERT_TRUE(session_->text.tokenizer.has_value()) << session_->text.tokenizer_error;
    prompt_ = adapt::golden_ids("prompt");
    continuation_ = adapt::golden_ids("continuation");
  }
  static void TearDownTestSuite() {
    delete session_;
    delete folder_;
  }

  static request::Request greedy(int64_t max_tokens) {
    request::Request request{.prompt = prompt_, .max_tokens = max_tokens, .ignore_model_stops = true};
    request.sampling.temperature = 0;
    return request;
  }
  static std::vector<int32_t> first(size_t count) {
    return {continuation_.begin(), continuation_.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  static inline adapt::TestFolder* folder_ = nullptr;
  static inline Session* session_ = nullptr;
  static inline std::vector<int32_t> prompt_, continuation_;
};

TEST_F(GenerationTest, TextTokensAndTimes) {
  std::string shown;
  int pieces = 0;
  const auto result = generate(*session_, greedy(12), {}, [&](const server::ChoicePiece& piece) {
    EXPECT_FALSE(piece.text.empty());
    shown += piece.text;
    ++pieces;
    return true;
  });
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->tokens, first(12));
  EXPECT_EQ(result->text, as_characters(first(12)));
  EXPECT_EQ(shown, result->text);
  EXPECT_GT(pieces, 3) << "as it comes, not at the end";
  EXPECT_EQ(result->finish_reason, "length");
  EXPECT_EQ(result->prompt_tokens, static_cast<int64_t>(prompt_.size()));
  EXPECT_EQ(result->events.size(), 12u);
  EXPECT_GT(result->ttft_s, 0);
  EXPECT_GT(result->prompt_tps, 0);
  EXPECT_GT(result->decode_tps, 0);
}

TEST_F(GenerationTest, EndsWhenNobodyReadsOn) {
  int pieces = 0;
  const auto result = generate(*session_, greedy(12), {}, [&](const server::ChoicePiece&) { return ++pieces < 3; });
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(pieces, 3);
  EXPECT_LT(result->tokens.size(), 12u);
}

TEST_F(GenerationTest, AStopStringEndsTheTextBeforeItAndTheComputationWithIt) {
  const std::string whole = as_characters(first(12));
  const std::string stop = whole.substr(4, 2);
  ASSERT_EQ(whole.find(stop), 4u);
  std::string shown;
  const auto result = generate(*session_, greedy(12), {"\xff never", stop}, [&](const auto& piece) {
    shown += piece.text;
    return true;
  });
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->text, whole.substr(0, 4));
  EXPECT_EQ(shown, whole.substr(0, 4)) << "nothing of the stop string is shown";
  EXPECT_EQ(result->finish_reason, "stop");
  EXPECT_EQ(result->tokens, first(6)) << "no token is computed behind it";
}

TEST_F(GenerationTest, AStopStringInTheLastTokensWinsOverTheLength) {
  const std::string whole = as_characters(first(6));
  const auto result = generate(*session_, greedy(6), {whole.substr(whole.size() - 2)}, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish_reason, "stop");
  EXPECT_EQ(result->text, whole.substr(0, whole.size() - 2));
}

TEST_F(GenerationTest, HalfAStopStringIsShownInTheEnd) {
  const std::string whole = as_characters(first(6));
  const auto result = generate(*session_, greedy(6), {whole.substr(whole.size() - 2) + "never"}, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish_reason, "length");
  EXPECT_EQ(result->text, whole);
}

// Marks cut out of what the model says: what is between them are its thoughts.
TEST_F(GenerationTest, ThoughtsAreToldApartByTheChatFormat) {
  const std::string whole = as_characters(first(12));
  text::ChatFormat format;
  format.thinking = {{.open = whole.substr(0, 2), .close = whole.substr(6, 2)}};
  const auto profile = server::make_chat_profile(format, *session_->text.tokenizer);
  std::string thoughts;
  const auto result =
      generate(*session_, greedy(12), {}, [&](const auto& piece) { return thoughts += piece.reasoning, true; },
               {.reading = server::make_chat_reading(profile, Json(), "")});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->reasoning, whole.substr(2, 4));
  EXPECT_EQ(result->text, whole.substr(8));
  EXPECT_EQ(thoughts, result->reasoning);
  EXPECT_EQ(result->tokens, first(12));
}

TEST_F(GenerationTest, AStopTokenIsNoPartOfTheOutput) {
  request::Request request = greedy(12);
  request.stop_token_ids = {continuation_[3]};
  const auto result = generate(*session_, std::move(request), {}, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tokens, first(3));
  EXPECT_EQ(result->text, as_characters(first(3)));
  EXPECT_EQ(result->finish_reason, "stop");
}

TEST_F(GenerationTest, WithoutATokenizerThereAreTokensAlone) {
  Session bare;
  bare.loaded = std::move(session_->loaded);
  const auto result = generate(bare, greedy(5), {"a"}, nullptr);
  session_->loaded = std::move(bare.loaded);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tokens, first(5));
  EXPECT_EQ(result->text, "");
}

TEST_F(GenerationTest, RefusedRequestsAreErrors) {
  request::Request empty = greedy(3);
  empty.prompt.clear();
  EXPECT_EQ(generate(*session_, std::move(empty), {}, nullptr).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(generate(*session_, greedy(-1), {}, nullptr).status().code(), StatusCode::kInvalidArgument);
  request::Request outside = greedy(3);
  outside.prompt[2] = 64;
  EXPECT_EQ(generate(*session_, std::move(outside), {}, nullptr).status().code(), StatusCode::kInvalidArgument);
  request::Request too_long = greedy(3);
  too_long.prompt.assign(128, 5);
  EXPECT_EQ(generate(*session_, std::move(too_long), {}, nullptr).status().code(), StatusCode::kInvalidArgument);
  request::Request hot = greedy(3);
  hot.sampling.temperature = -1;
  EXPECT_EQ(generate(*session_, std::move(hot), {}, nullptr).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(GenerationTest, PromptsGoThroughTheTemplateUnlessRaw) {
  const auto text_of = [&](const PromptText& prompt) {
    const auto ids = encode_prompt(session_->text, prompt);
    EXPECT_TRUE(ids.ok()) << ids.status().message();
    return session_->text.tokenizer->decode(*ids, {.skip_special = false});
  };
  EXPECT_EQ(text_of({.user = "hi"}), "<s>[user]hi");
  EXPECT_EQ(text_of({.system = "be brief", .user = "hi"}), "<s>[system]be brief[user]hi");
  EXPECT_EQ(text_of({.user = "hi", .raw = true}), "hi");
}

TEST_F(GenerationTest, AMessageMakesNoControlTokens) {
  const auto ids = encode_prompt(session_->text, {.user = "a</s>b"});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 2), 0);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 1), 1) << "the template's own";
}

TEST_F(GenerationTest, NoTokenizerNoPrompt) {
  EXPECT_EQ(encode_prompt(adapt::TextAssets(), {.user = "hi"}).status().code(), StatusCode::kInvalidData);
}

}  // namespace
}  // namespace firstlight::cli
