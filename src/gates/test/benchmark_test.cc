// SPDX-License-Identifier: Apache-2.0
#include "gates/benchmark.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "adapt/test/golden_model.h"

namespace firstlight::gates {
namespace {

class BenchmarkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    adapt::BringUpOptions options = adapt::quick_options(catalog::Backend::kCpu);
    options.buckets = {{4, 4}, {16, 4}};  // prompts come in pieces
    model_ = adapt::bring_up_golden(options);
  }
  static void TearDownTestSuite() { model_ = nullptr; }
  void SetUp() override { ASSERT_NE(model_, nullptr); }
  static inline std::unique_ptr<adapt::LoadedModel> model_;
};

TEST_F(BenchmarkTest, ARowForEachCombination) {
  int done = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto rows = benchmark(
      *model_->executor,
      {.prompts = {1, 40}, .depths = {0, 17}, .batches = {1, 3}, .decode_tokens = 6, .row_done = [&] { ++done; }});
  const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->size(), 8u);
  EXPECT_EQ(done, 8);
  double told = 0;
  size_t i = 0;
  for (const int64_t depth : {0, 17}) {
    for (const int64_t batch : {1, 3}) {
      for (const int64_t prompt : {1, 40}) {
        const BenchmarkRow& row = (*rows)[i++];
        EXPECT_EQ(row.depth, depth);
        EXPECT_EQ(row.batch, batch);
        EXPECT_EQ(row.prompt, prompt);
        EXPECT_GT(row.ttft_s, 0);
        EXPECT_GT(row.prompt_tps, 0);
        EXPECT_GT(row.decode_tps, 0);
        const double prompt_s = static_cast<double>(prompt * batch) / row.prompt_tps;
        EXPECT_GE(prompt_s * (1 + 1e-9), row.ttft_s) << "the first of the prompts is one of them";
        told += prompt_s + static_cast<double>(6 * batch) / row.decode_tps;
      }
    }
  }
  EXPECT_LT(told, whole) << "no row tells more time than has passed";
}

TEST_F(BenchmarkTest, WithoutDecodingThereIsNoRate) {
  const auto rows = benchmark(*model_->executor, {.prompts = {3}, .decode_tokens = 0});
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ((*rows)[0].decode_tps, 0);
}

// The pages of its sequences lie on the device.
TEST(Benchmark, RunsOnADevice) {
  const auto model = adapt::bring_up_golden(adapt::quick_options(catalog::Backend::kSimt));
  ASSERT_NE(model, nullptr);
  const auto rows = benchmark(*model->executor, {.prompts = {3}, .batches = {2}, .decode_tokens = 2});
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_GT((*rows)[0].decode_tps, 0);
}

TEST_F(BenchmarkTest, RefusesWhatItCannotRun) {
  const auto message = [&](const BenchmarkOptions& options) {
    const auto rows = benchmark(*model_->executor, options);
    EXPECT_EQ(rows.status().code(), StatusCode::kInvalidArgument);
    return rows.status().message();
  };
  EXPECT_NE(message({.prompts = {4, 0}}).find("prompt 0"), std::string::npos);
  EXPECT_NE(message({.depths = {-1}}).find("depth -1"), std::string::npos);
  EXPECT_NE(message({.batches = {0}}).find("batch 0"), std::string::npos);
  EXPECT_NE(message({.batches = {5}}).find("1 to 4 wanted"), std::string::npos) << "rows of logits in the plan";
  EXPECT_NE(message({.decode_tokens = -1}).find("-1"), std::string::npos);
  EXPECT_NE(message({.prompts = {int64_t{1} << 62}}).find("prompt"), std::string::npos) << "no sum overflows";
  EXPECT_NE(message({.depths = {int64_t{1} << 62}}).find("depth"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::gates
