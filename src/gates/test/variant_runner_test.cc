// SPDX-License-Identifier: Apache-2.0
// A run is what the converted checkpoint gives, by the definitions of divergence and perplexity written out plainly.
#include "gates/variant_runner.h"

#include <gtest/gtest.h>

#include "gates/test/variant_bench.h"

namespace firstlight::gates {
namespace {

TEST(VariantRunner, RunsWhatConvertWrites) {
  const adapt::TestFolder folder;
  write_model(folder / "model", false);
  Bench bench(folder / "model");
  ASSERT_NE(bench.runner, nullptr);
  const auto exact = log_probabilities(folder / "model", bench.tokens);
  const Effect own = effect_of(exact, exact, bench.tokens);
  EXPECT_EQ(bench.runner->untouched().effect.kl, 0);
  EXPECT_EQ(bench.runner->untouched().effect.top1, 1);
  EXPECT_NEAR(bench.runner->untouched().effect.perplexity, own.perplexity, 1e-5 * own.perplexity);
  int count = 0;
  for (const char* modules : {"model.layers.0.self_attn.v_proj", "model.layers.1.mlp", "*"}) {
    for (const adapt::QuantChoice& choice : choices({"int4:32", "mxfp4", "int8:32", "fp8"})) {
      const adapt::QuantPolicy policy = {{{.modules = modules, .choice = choice, .said = "test"}}};
      const auto found = bench.runner->run(policy);
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      const std::string path = folder / ("c" + std::to_string(count++));
      ASSERT_TRUE(adapt::quantise(folder / "model", path, {.policy = policy, .intake = {.probe_config = false}}).ok());
      const Effect wanted = effect_of(exact, log_probabilities(path, bench.tokens), bench.tokens);
      EXPECT_GT(wanted.kl, 0) << modules << " " << choice.name();
      EXPECT_NEAR(found->effect.kl, wanted.kl, 1e-6 + 1e-3 * wanted.kl) << modules << " " << choice.name();
      EXPECT_DOUBLE_EQ(found->effect.top1, wanted.top1);
      EXPECT_NEAR(found->effect.perplexity, wanted.perplexity, 1e-5 * wanted.perplexity);
      EXPECT_EQ(found->bytes, static_cast<int64_t>(formats::Checkpoint::open(path)->total_bytes()));
    }
  }
  EXPECT_EQ(bench.runner->num_runs(), 13);
}

TEST(VariantRunner, LeavesNothingBehindAndRefusesWhatDoesNotLoad) {
  const adapt::TestFolder folder;
  adapt::QuantSource source = adapt::open_quant_source(adapt::golden_path("mixtral"), {.probe_config = false}).value();
  const adapt::QuantPlanner planner(source);
  VariantOptions options{.bring_up = adapt::quick_options(), .tokens = {3, 5, 7, 4}, .scratch = folder.path()};
  auto runner = VariantRunner::create(planner, std::move(options));
  ASSERT_TRUE(runner.ok()) << runner.status().to_string();
  const adapt::QuantChoice int8;
  EXPECT_TRUE((*runner)->run(adapt::uniform_policy(int8, {})).ok());
  // Experts of one stack in two formats.
  const adapt::QuantPolicy one = {{{.modules = "re:.*experts\\.0\\..*", .choice = int8, .said = "test"}}};
  EXPECT_FALSE((*runner)->run(one).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_FALSE(VariantRunner::create(planner, {.bring_up = adapt::quick_options(), .tokens = {3}, .scratch = {}}).ok());
}

}  // namespace
}  // namespace firstlight::gates
