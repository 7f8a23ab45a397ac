// SPDX-License-Identifier: Apache-2.0
#include "gates/logits_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "adapt/test/golden_model.h"

namespace firstlight::gates {
namespace {

// The figures of docs/numerics.md, "Whole models", for a model of two layers.
double bound_of(const std::string& name, catalog::Backend backend, std::optional<catalog::ComputeMode> compute,
                std::optional<tensor::DType> state) {
  adapt::BringUpOptions options = adapt::quick_options(backend);
  options.compute = compute;
  options.state_dtype = state;
  const auto loaded = adapt::bring_up_golden(options, name);
  return loaded == nullptr ? -1 : logits_bound(loaded->executor->plan());
}

TEST(LogitsBound, FollowsHowThePlanComputes) {
  using catalog::Backend;
  using catalog::ComputeMode;
  using tensor::DType;
  const double layers = std::sqrt(9.0 * 2);
  EXPECT_DOUBLE_EQ(bound_of("llama", Backend::kReference, {}, {}), 2e-5);
  EXPECT_DOUBLE_EQ(bound_of("llama", Backend::kCpu, ComputeMode::kF32, DType::kF32), 2e-5);
  EXPECT_NEAR(bound_of("llama", Backend::kCpu, ComputeMode::kF32, DType::kF16), 4 * 3.1e-4 * layers, 1e-6);
  EXPECT_NEAR(bound_of("llama", Backend::kCpu, ComputeMode::kF32, DType::kBF16), 4 * 2.5e-3 * layers, 1e-6);
  EXPECT_NEAR(bound_of("llama", Backend::kCpu, ComputeMode::kBf16, DType::kF32), 4 * 1.6e-3 * layers, 1e-6);
  EXPECT_NEAR(bound_of("llama", Backend::kCpu, ComputeMode::kBf16, DType::kBF16),
              4 * std::hypot(1.6e-3, 2.5e-3) * layers, 1e-6);
  EXPECT_NEAR(bound_of("gpt_oss_mxfp4", Backend::kCpu, ComputeMode::kInt8, DType::kF32), 4 * 6.8e-3 * layers, 1e-6)
      << "the experts' products count too";
  EXPECT_NEAR(bound_of("mamba2", Backend::kCpu, ComputeMode::kBf16, DType::kF32), 4 * 1.6e-3 * std::sqrt(27.0 * 3),
              1e-6)
      << "a recurrence multiplies rounded factors";
}

TEST(CompareRows, MeasuresWhatItSays) {
  const std::vector<float> wanted = {3, 4, 0, -12}, found = {3, 4, 0.5f, -12};
  const RowComparison row = compare_rows(found, wanted, 0.01);
  EXPECT_NEAR(row.rel_l2, 0.5 / 13, 1e-12);
  EXPECT_NEAR(row.max_abs, 0.5, 1e-12);
  EXPECT_NEAR(row.cosine, 169 / (13 * std::sqrt(169.25)), 1e-12);
  EXPECT_TRUE(row.best_equal);
}

TEST(CompareRows, TheBestTokenDecidesOnlyBeyondTheBound) {
  // rms 2.5, margin 1: decided while 4 * bound * 2.5 < 1.
  const std::vector<float> wanted = {4, 3, 0, 0}, found = {3, 4, 0, 0};
  EXPECT_FALSE(compare_rows(found, wanted, 0.09).best_equal);
  EXPECT_TRUE(compare_rows(found, wanted, 0.09).best_decided);
  EXPECT_FALSE(compare_rows(found, wanted, 0.11).best_decided);
}

TEST(CompareRows, NotANumberIsNoSmallError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> wanted = {1, 2, 3};
  for (const std::vector<float>& found : {std::vector<float>{1, nan, 3}, {1, inf, 3}, {nan, nan, nan}}) {
    EXPECT_FALSE(compare_rows(found, wanted, 0.1).rel_l2 <= 0.1);
    EXPECT_FALSE(std::isnan(found[1]) && compare_rows(found, wanted, 0.1).best_equal);
  }
  EXPECT_FALSE(compare_rows(wanted, std::vector<float>{1, nan, 3}, 0.1).rel_l2 <= 0.1);
}

TEST(CompareRows, ARowOfZerosIsComparedAbsolutely) {
  const std::vector<float> wanted = {0, 0}, found = {3, 4};
  EXPECT_DOUBLE_EQ(compare_rows(found, wanted, 0.1).rel_l2, 5);
  EXPECT_DOUBLE_EQ(compare_rows(wanted, wanted, 0.1).rel_l2, 0);
}

}  // namespace
}  // namespace firstlight::gates
