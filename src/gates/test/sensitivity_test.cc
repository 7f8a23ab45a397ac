// SPDX-License-Identifier: Apache-2.0
// Units of tiny models measured by runs: planted outliers must be found and kept, and budgets met by the measured
// whole. That a run is what the converted checkpoint gives: variant_runner_test.cc.
#include "gates/sensitivity.h"

#include <gtest/gtest.h>

#include "gates/policy_search.h"
#include "gates/test/variant_bench.h"

namespace firstlight::gates {
namespace {

Sensitivity measure(Bench& bench, const SensitivityOptions& options) {
  auto found = measure_sensitivity(bench.planner, *bench.runner, options);
  EXPECT_TRUE(found.ok()) << found.status().to_string();
  return found.ok() ? std::move(*found) : Sensitivity{};
}

TEST(Sensitivity, EveryFormatOfEveryUnitIsRun) {
  const adapt::TestFolder folder;
  write_model(folder / "model", false);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto found = measure(bench, {.choices = choices({"int4:32", "mxfp4", "int8:32", "fp8"}), .max_runs = 1000});
  EXPECT_EQ(found.granularity, Granularity::kModule);
  EXPECT_EQ(found.units.size(), 2u * 7);
  EXPECT_EQ(found.formats_run, 4);
  for (const Unit& unit : found.units) {
    for (const UnitFormat& format : unit.formats) {
      const bool fits = format.choice.name() != "mxfp4" || unit.kind != "mlp.down_proj";  // 40 columns
      EXPECT_EQ(format.measured, fits) << unit.name << " " << format.choice.name();
      EXPECT_EQ(format.obstacle.empty(), fits) << format.obstacle;
      EXPECT_EQ(format.kl, format.effect.kl) << "0 of one that does not fit";
    }
  }
  const Unit& unit = found.units[5];
  const adapt::QuantPolicy policy = {{{.modules = unit.name, .choice = unit.formats[2].choice, .said = "test"}}};
  EXPECT_EQ(unit.formats[2].kl, bench.runner->run(policy)->effect.kl);
  ASSERT_EQ(found.computed.size(), 2u);
  EXPECT_EQ(found.computed[1].second.bytes, bench.runner->run(adapt::uniform_policy({}, {}))->bytes);
  ASSERT_EQ(found.wholes.size(), 4u);
  EXPECT_GT(found.wholes[0].variant.effect.kl, found.wholes[2].variant.effect.kl) << "int4 against int8";
}

TEST(Sensitivity, PlantedOutliersComeFirstAndStay) {
  const adapt::TestFolder folder;
  write_model(folder / "model", true);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto found = measure(bench, {.choices = choices({"int4:32", "int8:32"}), .max_runs = 1000});
  ASSERT_FALSE(found.units.empty());
  EXPECT_EQ(found.units[0].name, kPlanted);
  EXPECT_GT(found.units[0].formats[0].kl, 3 * found.units[1].formats[0].kl);

  // A budget that all others together fit into, and it does not.
  double others = 0;
  for (size_t u = 1; u < found.units.size(); ++u) others += found.units[u].formats[0].kl;
  const double budget = std::min(others, 0.8 * found.units[0].formats[0].kl);
  const auto proposal = search_policy(found.units, *bench.runner, {.max_kl = budget});
  ASSERT_TRUE(proposal.ok()) << proposal.status().to_string();
  EXPECT_TRUE(proposal->within_budget);
  EXPECT_LE(proposal->variant.effect.kl, budget);
  EXPECT_LT(proposal->variant.bytes, bench.runner->untouched().bytes);
  EXPECT_NE(proposal->chosen[0], 0) << "the planted weights may not be int4";
  EXPECT_GT(std::count(proposal->chosen.begin(), proposal->chosen.end(), 0), 3) << "most of the others may";

  // What is written says the same, and the checkpoint has the measured effect.
  const auto policy = adapt::parse_policy(adapt::policy_text(proposal->policy, {"a policy"}), "p.toml");
  ASSERT_TRUE(policy.ok()) << policy.status().to_string();
  ASSERT_TRUE(adapt::quantise(folder / "model", folder / "mixed", {.policy = *policy}).ok());
  const Effect whole = effect_of(log_probabilities(folder / "model", bench.tokens),
                                 log_probabilities(folder / "mixed", bench.tokens), bench.tokens);
  EXPECT_NEAR(whole.kl, proposal->variant.effect.kl, 1e-6 + 1e-3 * whole.kl);
  EXPECT_EQ(static_cast<int64_t>(formats::Checkpoint::open(folder / "mixed")->total_bytes()), proposal->variant.bytes);

  // At the bytes of int4 throughout plus those that the planted weights need in int8.
  const int64_t bytes =
      found.wholes[0].variant.bytes + found.units[0].formats[1].bytes - found.units[0].formats[0].bytes;
  const auto small = search_policy(found.units, *bench.runner, {.target_bytes = bytes});
  ASSERT_TRUE(small.ok()) << small.status().to_string();
  EXPECT_LE(small->variant.bytes, bytes);
  EXPECT_LT(small->variant.effect.kl, found.wholes[0].variant.effect.kl - 0.5 * found.units[0].formats[0].kl);
}

TEST(Sensitivity, BudgetsOfPerplexityAreMetByTheWhole) {
  const adapt::TestFolder folder;
  write_model(folder / "model", false);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto found = measure(bench, {.choices = choices({"int4:32", "int8:32"}), .max_runs = 1000});
  for (const double increase : {0.002, 0.02}) {
    int rounds = 0;
    const auto proposal = search_policy(found.units, *bench.runner, {.max_perplexity_increase = increase},
                                        [&](const PolicyProposal&) { ++rounds; });
    ASSERT_TRUE(proposal.ok()) << proposal.status().to_string();
    EXPECT_TRUE(proposal->within_budget);
    EXPECT_LE(proposal->variant.effect.perplexity, (1 + increase) * bench.runner->untouched().effect.perplexity);
    EXPECT_EQ(rounds, proposal->rounds);
  }
  EXPECT_FALSE(search_policy(found.units, *bench.runner, {}).ok());
  EXPECT_FALSE(search_policy(found.units, *bench.runner, {.max_kl = 1.0, .target_bytes = 1}).ok());
  EXPECT_FALSE(search_policy(found.units, *bench.runner, {.max_kl = 1e-12}).ok()) << "no weight fits";
}

TEST(Sensitivity, FewRunsMeasureTheRoughestAndEstimateTheRest) {
  const adapt::TestFolder folder;
  write_model(folder / "model", false);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto few = measure(bench, {.choices = choices({"int4:32", "int8:32", "fp8"}), .max_runs = 14});
  EXPECT_EQ(few.granularity, Granularity::kModule);
  EXPECT_EQ(few.formats_run, 1);
  const auto all = measure(bench, {.choices = choices({"int4:32", "int8:32", "fp8"}), .max_runs = 1000});
  for (const Unit& unit : few.units) {
    const auto same =
        std::find_if(all.units.begin(), all.units.end(), [&](const Unit& u) { return u.name == unit.name; });
    ASSERT_NE(same, all.units.end());
    EXPECT_TRUE(unit.formats[0].measured);
    EXPECT_EQ(unit.formats[0].kl, same->formats[0].kl);
    for (const size_t i : {1, 2}) {
      EXPECT_FALSE(unit.formats[i].measured);
      EXPECT_GT(unit.formats[i].kl, 0);
      // Of the same order as a run's.
      EXPECT_LT(std::abs(std::log10(unit.formats[i].kl / same->formats[i].kl)), 1.2) << unit.name << i;
    }
  }
  EXPECT_EQ(measure(bench, {.choices = choices({"int8"}), .max_runs = 5}).units.size(), 4u) << "blocks";
  EXPECT_EQ(measure(bench, {.choices = choices({"int8"}), .max_runs = 2}).units.size(), 2u) << "layers";
}

TEST(Sensitivity, ExpertsOfOneKindAreOneUnitAndW8a8HasItsOwnRun) {
  Bench bench(adapt::golden_path("qwen3_moe"), "qwen3_moe", catalog::Backend::kCpu);
  ASSERT_NE(bench.runner, nullptr);
  const auto units = list_units(bench.planner, choices({"int4", "mxfp4"}), Granularity::kModule);
  ASSERT_TRUE(units.ok());
  const auto experts =
      std::find_if(units->begin(), units->end(), [](const Unit& u) { return u.kind == "mlp.experts.*.up_proj"; });
  ASSERT_NE(experts, units->end());
  EXPECT_EQ(experts->name, experts->layer + ".mlp.experts.*.up_proj");
  EXPECT_GT(experts->tensors.size(), 3u);
  for (const Unit& unit : *units) EXPECT_EQ(unit.kind.find("gate.weight"), std::string::npos) << "routers stay";
  const auto found = measure(bench, {.choices = choices({"int8"}), .max_runs = 8, .activations = true});
  EXPECT_NE(found.granularity, Granularity::kModule);
  for (const Unit& unit : found.units) {
    ASSERT_TRUE(unit.w8a8_kl.has_value());
    EXPECT_GT(*unit.w8a8_kl, 0.3 * unit.formats[0].kl) << unit.name;
    EXPECT_NE(*unit.w8a8_kl, unit.formats[0].kl) << unit.name << ": activations were not rounded";
  }
}

}  // namespace
}  // namespace firstlight::gates
