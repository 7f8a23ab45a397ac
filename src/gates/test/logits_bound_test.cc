// SPDX-License-Identifier: Apache-2.0
#include "gates/logits_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

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

TEST(LogitsBound, TheOtherSidesRoundingCounts) {
  const auto loaded = adapt::bring_up_golden(adapt::quick_options(), "llama");
  ASSERT_NE(loaded, nullptr);
  EXPECT_NEAR(logits_bound(loaded->executor->plan(), 1.6e-3), 4 * 1.6e-3 * std::sqrt(9.0 * 2), 1e-6);
}

// Rows whose distances are drawn around 0.01, logits spreading by 3.
std::vector<RowResult> honest_rows(unsigned seed, size_t count = 128, double size = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 0.03 * size);
  std::vector<RowResult> rows(count);
  for (size_t i = 0; i < count; ++i) {
    const double shift = normal(random);
    rows[i] = {.position = static_cast<int64_t>(i),
               .rel_l2 = 0.01 * size * (1 + 0.3 * std::sin(static_cast<double>(i))),
               .kl = shift * shift / 2,
               .surprise = 2,
               .found_surprise = 2 + shift,
               .scored = true,
               .best = 3,
               .found_best = 3,
               .margin = 1,
               .spread = 3};
  }
  return rows;
}

class ToleranceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = adapt::bring_up_golden(); }
  static void TearDownTestSuite() { model_ = nullptr; }
  void SetUp() override { ASSERT_NE(model_, nullptr); }
  static std::string fault(const std::vector<RowResult>& rows, bool routed = false) {
    const auto rounding = measured_rounding(model_->executor->plan(), honest_rows(1), routed);
    const auto tolerance = logits_tolerance(rounding, rows, routed);
    return fault_of(figures_of(rows, tolerance), tolerance);
  }
  static inline std::unique_ptr<adapt::LoadedModel> model_;
};

TEST_F(ToleranceTest, RoundingOfTheMeasuredSizePasses) {
  for (unsigned seed = 2; seed < 40; ++seed) {
    EXPECT_EQ(fault(honest_rows(seed)), "") << seed;
    EXPECT_EQ(fault(honest_rows(seed, 12)), "") << seed;
  }
}

TEST_F(ToleranceTest, ErrorsOfFourTimesThatSizeDoNot) {
  EXPECT_NE(fault(honest_rows(2, 128, 4)).find("root mean square"), std::string::npos) << fault(honest_rows(2, 128, 4));
}

TEST_F(ToleranceTest, OneRowFarAwayIsNamed) {
  auto rows = honest_rows(2);
  rows[77].rel_l2 = 0.2;
  EXPECT_NE(fault(rows).find("position 77"), std::string::npos) << fault(rows);
  EXPECT_EQ(fault(rows, true), "") << "a choice of experts may turn on rounding";
  for (size_t i = 0; i < 12; ++i) rows[i].rel_l2 = 0.2;
  EXPECT_NE(fault(rows, true), "") << "but not many";
}

TEST_F(ToleranceTest, AnotherBestTokenIsAFaultWhereTheMarginDecides) {
  auto rows = honest_rows(2);
  rows[5].found_best = 4;
  EXPECT_NE(fault(rows).find("best token"), std::string::npos) << fault(rows);
  rows[5].margin = 0.01;
  EXPECT_EQ(fault(rows), "");
}

TEST_F(ToleranceTest, PerplexityAndDivergenceAreJudgedApart) {
  auto rows = honest_rows(2);
  for (auto& row : rows) row.found_surprise += 0.05;
  EXPECT_NE(fault(rows).find("perplexity"), std::string::npos) << fault(rows);
  rows = honest_rows(2);
  for (auto& row : rows) row.kl += 0.05;
  EXPECT_NE(fault(rows).find("KL"), std::string::npos) << fault(rows);
}

TEST_F(ToleranceTest, NotANumberIsAFault) {
  auto rows = honest_rows(2);
  rows[9].rel_l2 = std::nan("");
  EXPECT_NE(fault(rows).find("position 9"), std::string::npos) << fault(rows);
  EXPECT_NE(fault(rows, true), "") << "experts are no excuse";
}

TEST_F(ToleranceTest, WithoutRoundingTheFloorIsWhatSumsMayDiffer) {
  std::vector<RowResult> rows(20);
  for (auto& row : rows) row.rel_l2 = 1.9e-5, row.spread = 3;
  const auto rounding = estimated_rounding(model_->executor->plan(), 0, rows);
  const auto tolerance = logits_tolerance(rounding, rows, false);
  EXPECT_EQ(fault_of(figures_of(rows, tolerance), tolerance), "");
  rows[3].rel_l2 = 2.1e-5;
  EXPECT_NE(fault_of(figures_of(rows, tolerance), tolerance), "");
}

}  // namespace
}  // namespace firstlight::gates
