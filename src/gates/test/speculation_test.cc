// SPDX-License-Identifier: Apache-2.0
#include "gates/speculation.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"

namespace firstlight::gates {
namespace {

TEST(BenchmarkSpeculation, CountsAndKeepsTheText) {
  const auto model = adapt::bring_up_golden();
  ASSERT_NE(model, nullptr);
  const SpeculationOptions options{
      .prompts = {60}, .batches = {1, 3}, .decode_tokens = 40, .draft_tokens = 4, .rounds = 1};
  const auto rows = benchmark_speculation(*model->executor, nullptr, options);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->size(), 6u);
  int64_t drafted = 0;
  for (const SpeculationRow& row : *rows) {
    EXPECT_TRUE(row.same) << row.text;
    EXPECT_EQ(row.tokens, 40 * row.batch);
    EXPECT_GT(row.plain_tps, 0);
    EXPECT_GT(row.tps, 0);
    EXPECT_GT(row.ratio, 0);
    EXPECT_LE(row.accepted, row.drafted);
    drafted += row.drafted;
  }
  EXPECT_GT(drafted, 0);
  EXPECT_EQ((*rows)[0].text, "repeating");
  EXPECT_EQ((*rows)[1].text, "drawn");
  EXPECT_EQ((*rows)[2].text, "contrary");
}

// Guesses that are never right: the bound of what they cost, in rows.
TEST(BenchmarkSpeculation, WhatIsNeverRightIsHardlyTried) {
  const auto model = adapt::bring_up_golden();
  ASSERT_NE(model, nullptr);
  const SpeculationOptions options{.prompts = {60}, .decode_tokens = 60, .rounds = 1};
  const auto rows = benchmark_speculation(*model->executor, nullptr, options);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  const SpeculationRow& row = (*rows)[2];
  ASSERT_EQ(row.text, "contrary");
  EXPECT_TRUE(row.same);
  EXPECT_EQ(row.accepted, 0);
  EXPECT_GE(row.drafted, 2) << "there was always something to guess";
  EXPECT_LE(row.drafted, 3) << "of 60 tokens";
}

TEST(BenchmarkSpeculation, RefusesWhatItCannotMeasure) {
  const auto model = adapt::bring_up_golden();
  ASSERT_NE(model, nullptr);
  for (const SpeculationOptions& options :
       {SpeculationOptions{.batches = {17}}, {.batches = {0}}, {.decode_tokens = 1}, {.draft_tokens = 0}}) {
    EXPECT_EQ(benchmark_speculation(*model->executor, nullptr, options).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace firstlight::gates
