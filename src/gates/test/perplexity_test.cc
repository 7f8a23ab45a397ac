// SPDX-License-Identifier: Apache-2.0
// Against the definition written out plainly: which tokens count, and behind what they are seen.
#include "gates/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "adapt/test/golden_model.h"
#include "engine/scorer.h"

namespace firstlight::gates {
namespace {

class PerplexityTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = adapt::bring_up_golden(); }
  static void TearDownTestSuite() { model_ = nullptr; }
  void SetUp() override {
    ASSERT_NE(model_, nullptr);
    std::mt19937 random(7);
    for (int i = 0; i < 37; ++i) text_.push_back(std::uniform_int_distribution<int32_t>(3, 63)(random));
  }

  // -log p of the last token behind the others.
  static double surprise(std::vector<int32_t> tokens) {
    const int32_t last = tokens.back();
    tokens.pop_back();
    double result = 0;
    const Status status =
        engine::score(*model_->executor, tokens, {.first_row = static_cast<int64_t>(tokens.size()) - 1},
                      [&](int64_t, std::span<const float> logits) {
                        double sum = 0;
                        for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
                        result = std::log(sum) - static_cast<double>(logits[static_cast<size_t>(last)]);
                      });
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }

  // Every token once, each in the first window that holds it, if something stands in front of it there.
  Perplexity plainly(int64_t window, int64_t stride, std::optional<int32_t> bos) const {
    const int64_t room = window - (bos ? 1 : 0);
    const auto total = static_cast<int64_t>(text_.size());
    Perplexity result;
    double sum = 0;
    for (int64_t token = 0; token < total; ++token) {
      int64_t start = 0;
      while (token >= start + room) start += std::min(stride, room);
      result.num_windows = std::max(result.num_windows, start / std::min(stride, room) + 1);
      std::vector<int32_t> seen(text_.begin() + start, text_.begin() + token + 1);
      if (bos) seen.insert(seen.begin(), *bos);
      if (seen.size() < 2) continue;
      sum += surprise(seen);
      ++result.scored_tokens;
    }
    result.perplexity = std::exp(sum / static_cast<double>(result.scored_tokens));
    return result;
  }

  static Result<Perplexity> measure(std::span<const int32_t> tokens, const PerplexityOptions& options) {
    return perplexity(*model_->executor, tokens, options);
  }

  static inline std::unique_ptr<adapt::LoadedModel> model_;
  std::vector<int32_t> text_;
};

TEST_F(PerplexityTest, IsWhatTheDefinitionSays) {
  struct Case {
    int64_t window, stride;
    std::optional<int32_t> bos;
  };
  for (const Case& one : {Case{8, 8, {}},
                          {8, 8, 1},
                          {8, 3, {}},
                          {8, 3, 1},
                          {8, 1, {}},
                          {2, 2, {}},
                          {2, 1, {}},
                          {2, 2, 1},
                          {37, 37, {}},
                          {38, 38, 1},
                          {36, 36, {}},
                          {100, 100, {}},
                          {40, 9, 1}}) {
    const auto found = measure(text_, {.window = one.window, .stride = one.stride, .bos = one.bos});
    ASSERT_TRUE(found.ok()) << found.status().message();
    const Perplexity wanted = plainly(one.window, one.stride, one.bos);
    EXPECT_EQ(found->scored_tokens, wanted.scored_tokens) << one.window << " " << one.stride;
    EXPECT_EQ(found->num_windows, wanted.num_windows) << one.window << " " << one.stride;
    EXPECT_NEAR(found->perplexity / wanted.perplexity, 1, 2e-6) << one.window << " " << one.stride;
  }
}

// tests/peers/compare_llamacpp.py counts so: windows side by side, their first position never scored.
TEST_F(PerplexityTest, WithoutOverlapEachWindowLosesItsFirstPosition) {
  EXPECT_EQ(measure(text_, {.window = 8, .stride = 8})->scored_tokens, 37 - 5);
  EXPECT_EQ(measure(text_, {.window = 9, .stride = 9})->scored_tokens, 37 - 5) << "a last window of one token";
  EXPECT_EQ(measure(text_, {.window = 8, .stride = 8, .bos = 1})->scored_tokens, 37);
  EXPECT_EQ(measure(text_, {.window = 8, .stride = 8, .bos = 1})->num_windows, 6) << "seven tokens behind each BOS";
  EXPECT_EQ(measure(text_, {.window = 8, .stride = 7})->scored_tokens, 36) << "overlap gives all but the very first";
}

TEST_F(PerplexityTest, TellsItsProgress) {
  std::vector<int64_t> done;
  ASSERT_TRUE(measure(text_, {.window = 10,
                              .stride = 10,
                              .progress =
                                  [&](int64_t at, int64_t total) {
                                    done.push_back(at);
                                    EXPECT_EQ(total, 37);
                                  }})
                  .ok());
  EXPECT_EQ(done, (std::vector<int64_t>{10, 20, 30, 37}));
}

TEST_F(PerplexityTest, RefusesWhatHasNoMeaning) {
  const auto code = [&](std::span<const int32_t> tokens, const PerplexityOptions& options) {
    return measure(tokens, options).status().code();
  };
  EXPECT_EQ(code({}, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(std::span(text_).first(1), {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(text_, {.window = 1, .stride = 1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(text_, {.window = 8, .stride = 9}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(text_, {.window = 8, .stride = 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(text_, {.window = -8, .stride = -9}), StatusCode::kInvalidArgument);
  text_[5] = 64;
  EXPECT_EQ(code(text_, {.window = 8, .stride = 8}), StatusCode::kInvalidArgument) << "no id of this model";
}

TEST_F(PerplexityTest, AHugeWindowIsTheWholeText) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const auto found = measure(text_, {.window = huge, .stride = huge, .bos = 1});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->perplexity, measure(text_, {.window = 38, .stride = 38, .bos = 1})->perplexity);
}

TEST_F(PerplexityTest, BesideItselfNothingDiverges) {
  const auto found = measure(text_, {.window = 16, .stride = 16, .beside = model_->executor.get()});
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_TRUE(found->divergence);
  EXPECT_EQ(found->divergence->perplexity, found->perplexity);
  EXPECT_NEAR(found->divergence->mean_kl, 0, 1e-12);
  EXPECT_EQ(found->divergence->same_top, 1);
}

}  // namespace
}  // namespace firstlight::gates
