// SPDX-License-Identifier: Apache-2.0
// Counted by hand for models small enough to.
#include "gates/plan_work.h"

#include <gtest/gtest.h>

#include "adapt/test/golden_model.h"

namespace firstlight::gates {
namespace {

adapt::BringUpOptions exact() {
  adapt::BringUpOptions options = adapt::quick_options(catalog::Backend::kReference);
  return options;
}

// Elements of all weights of two axes in the checkpoint whose name does not hold `except`.
double matrix_elements(const adapt::LoadedModel& model, const std::string& except) {
  double count = 0;
  for (const auto& [name, record] : model.checkpoint->tensors()) {
    if (record.shape.size() == 2 && name.find(except) == std::string::npos)
      count += static_cast<double>(record.num_elements());
  }
  return count;
}

TEST(PlanWork, CountsEachProductOnce) {
  const auto model = adapt::bring_up_golden(exact(), "llama");
  ASSERT_NE(model, nullptr);
  const plan::Plan& plan = model->executor->plan();
  const double body = matrix_elements(*model, "embed_tokens");
  const PlanWork one = work_of(plan, {.tokens = 1, .outputs = 1, .sequences = 1, .depth = 0});
  const PlanWork ten = work_of(plan, {.tokens = 10, .outputs = 1, .sequences = 1, .depth = 0});
  EXPECT_GE(one.f32_operations, 2 * body);
  EXPECT_LT(one.f32_operations, 2.2 * body) << "attention to one key is little";
  EXPECT_LT(ten.f32_operations, 10 * one.f32_operations) << "logits of one row alone";
  EXPECT_EQ(one.steps, ten.steps);
  EXPECT_EQ(one.int8_operations, 0);
  EXPECT_GT(one.weight_bytes, body * 2) << "of two bytes at least";
}

TEST(PlanWork, StatesAreReadAsFarAsTheyAreSeen) {
  const auto model = adapt::bring_up_golden(exact(), "mistral");  // a window of 8
  const auto full = adapt::bring_up_golden(exact(), "llama");
  ASSERT_NE(model, nullptr);
  ASSERT_NE(full, nullptr);
  const auto bytes = [](const adapt::LoadedModel& loaded, int64_t depth) {
    return work_of(loaded.executor->plan(), {.tokens = 1, .outputs = 1, .sequences = 1, .depth = depth}).state_bytes;
  };
  EXPECT_EQ(bytes(*model, 50), bytes(*model, 100));
  EXPECT_LT(bytes(*full, 50), bytes(*full, 100));
  const double per_token = bytes(*full, 51) - bytes(*full, 50);
  EXPECT_NEAR(bytes(*full, 100) - bytes(*full, 50), 50 * per_token, 1e-6);
}

TEST(PlanWork, AFewTokensReachAFewExperts) {
  const auto model = adapt::bring_up_golden(exact(), "qwen3_moe");
  ASSERT_NE(model, nullptr);
  const plan::Plan& plan = model->executor->plan();
  const double one = work_of(plan, {.tokens = 1, .outputs = 1, .sequences = 1, .depth = 0}).weight_bytes;
  const double all = work_of(plan, {.tokens = 1000, .outputs = 1, .sequences = 1, .depth = 0}).weight_bytes;
  EXPECT_LT(one, all);
  const double first = work_of(plan, {.tokens = 1, .outputs = 1, .sequences = 1, .depth = 0}).f32_operations;
  const double eight = work_of(plan, {.tokens = 8, .outputs = 8, .sequences = 8, .depth = 0}).f32_operations;
  EXPECT_NEAR(eight / first, 8, 0.01) << "each token is multiplied with its own experts' weights alone";
}

TEST(Floor, IsTheLargerOfReadingAndComputingAndTheStepsOnTop) {
  const target::CpuRoof roof{.read_gbps = 10, .f32_tflops = 1, .bf16_tflops = 2, .int8_tops = 4};
  const Floor memory = floor_of({.weight_bytes = 1e9, .f32_operations = 1e9, .steps = 100}, roof, 1e-6);
  EXPECT_NEAR(memory.seconds, 0.1 + 1e-4, 1e-9);
  EXPECT_EQ(memory.bound, "memory");
  const Floor arithmetic = floor_of(
      {.weight_bytes = 1e8, .f32_operations = 1e11, .bf16_operations = 1e11, .int8_operations = 1e11}, roof, 0);
  EXPECT_NEAR(arithmetic.seconds, 0.1 + 0.05 + 0.025, 1e-9);
  EXPECT_EQ(arithmetic.bound, "arithmetic");
  EXPECT_EQ(floor_of({.weight_bytes = 1e5, .steps = 100}, roof, 1e-6).bound, "steps");
  EXPECT_EQ(floor_of({.weight_bytes = 1e9}, {}, 0).seconds, 0) << "an unmeasured roof gives no time";
}

}  // namespace
}  // namespace firstlight::gates
