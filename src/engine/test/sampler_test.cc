// SPDX-License-Identifier: Apache-2.0
// The sampler against tests/golden/data/sampling.json, an independent computation (tools/golden/sampling.py).
#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/file_map.h"
#include "base/json.h"

namespace firstlight::engine {
namespace {

request::SamplingParams params_from(const Json& json) {
  request::SamplingParams params;
  params.temperature = json.value("temperature", params.temperature);
  params.top_k = json.value("top_k", params.top_k);
  params.top_p = json.value("top_p", params.top_p);
  params.min_p = json.value("min_p", params.min_p);
  params.repetition_penalty = json.value("repetition_penalty", params.repetition_penalty);
  params.presence_penalty = json.value("presence_penalty", params.presence_penalty);
  params.frequency_penalty = json.value("frequency_penalty", params.frequency_penalty);
  if (json.contains("logit_bias")) {
    for (const auto& [token, bias] : json["logit_bias"].items())
      params.logit_bias[std::stoi(token)] = bias.get<double>();
  }
  return params;
}

TEST(Sampler, AgreesWithAnIndependentComputation) {
  const auto text = read_text_file("tests/golden/data/sampling.json");
  ASSERT_TRUE(text.ok());
  const Json golden = parse_json(*text).value();
  ASSERT_GE(golden["cases"].size(), 20u);
  for (const Json& one : golden["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const auto logits = one["logits"].get<std::vector<float>>();
    auto params = params_from(one["params"]);
    params.num_logprobs = static_cast<int>(one["top_logprobs"].size());
    Sampler sampler(params, one["prompt"].get<std::vector<int32_t>>());
    for (const int32_t token : one["generated"].get<std::vector<int32_t>>()) sampler.accept(token);
    std::vector<double> found(logits.size(), 0);
    for (const Candidate& left : sampler.distribution(logits, {}))
      found[static_cast<size_t>(left.token)] = left.probability;
    const auto wanted = one["probabilities"].get<std::vector<double>>();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 2e-6) << "token " << i;
    const auto event = sampler.sample(logits, nullptr).value();
    ASSERT_EQ(event.top_logprobs.size(), one["top_logprobs"].size());
    for (size_t i = 0; i < event.top_logprobs.size(); ++i) {
      EXPECT_EQ(event.top_logprobs[i].token, one["top_logprobs"][i][0].get<int32_t>());
      EXPECT_NEAR(event.top_logprobs[i].logprob, one["top_logprobs"][i][1].get<double>(), 1e-6);
    }
  }
}

TEST(Sampler, ATinyTemperatureIsGreedy) {
  const std::vector<float> logits = {-300.0f, 40.0f, 41.0f, -std::numeric_limits<float>::infinity(), 41.0f};
  for (const double temperature : {1e-6, 1e-38, 1e-44, 5e-324}) {
    const Sampler sampler({.temperature = temperature}, {});
    for (const Candidate& one : sampler.distribution(logits, {})) {
      EXPECT_EQ(one.probability, one.token == 2 || one.token == 4 ? 0.5 : 0) << temperature;
    }
  }
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f};
  request::SamplingParams params{.temperature = 0.8, .seed = 7};
  Sampler sampler(params, {});
  const auto wanted = sampler.distribution(logits, {});
  std::vector<double> counts(logits.size(), 0);
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(*sampler.sample(logits, nullptr)->token)];
  for (const Candidate& one : wanted) {
    const double deviation = std::sqrt(one.probability * (1 - one.probability) / kDraws);
    EXPECT_NEAR(counts[static_cast<size_t>(one.token)] / kDraws, one.probability, 5 * deviation);
  }
}

TEST(Sampler, SeedsMakeStreams) {
  const std::vector<float> logits(64, 0.0f);
  const auto draw = [&](std::optional<uint64_t> seed) {
    Sampler sampler({.seed = seed}, {});
    std::vector<int32_t> tokens;
    for (int i = 0; i < 16; ++i) tokens.push_back(*sampler.sample(logits, nullptr)->token);
    return tokens;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
  EXPECT_NE(draw(std::nullopt), draw(std::nullopt));
}

TEST(Sampler, GreedyTakesTheLowestAmongEquals) {
  Sampler sampler({.temperature = 0}, {});
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 3, 2}, nullptr)->token, 1);
}

TEST(Sampler, BrokenLogitsAreAnError) {
  Sampler sampler({.temperature = 0}, {});
  EXPECT_EQ(sampler.sample(std::vector<float>{0, std::nanf("")}, nullptr).code(), StatusCode::kInternal);
  EXPECT_EQ(sampler.sample(std::vector<float>{0, std::numeric_limits<float>::infinity()}, nullptr).code(),
            StatusCode::kInternal);
  const std::vector<float> none(3, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(sampler.sample(none, nullptr).code(), StatusCode::kInternal) << "no token is likeliest";
  const std::vector<float> one = {none[0], -5, none[0]};
  EXPECT_EQ(sampler.sample(one, nullptr)->token, 1);
}

struct OnlyTwo : request::TokenMask {
  void set_stop_tokens(std::span<const int32_t>) override {}
  Status apply(std::span<uint8_t> allowed) override {
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = i == 2;
    return ok_status();
  }
  void accept(int32_t) override {}
  bool is_over() const override { return false; }
};

TEST(Sampler, AMaskDecidesWhatMayFollow) {
  OnlyTwo mask;
  Sampler greedy({.temperature = 0}, {});
  EXPECT_EQ(greedy.sample(std::vector<float>{5, 4, 1}, &mask)->token, 2);
  Sampler warm({.temperature = 1}, {});
  EXPECT_EQ(warm.sample(std::vector<float>{5, 4, 1}, &mask)->token, 2);
}

}  // namespace
}  // namespace firstlight::engine
