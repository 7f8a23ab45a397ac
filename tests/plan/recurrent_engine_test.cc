// SPDX-License-Identifier: Apache-2.0
// The engine and the scorer over a model whose memory is recurrent: several requests that come and go, prompts in
// pieces, places that are used again. A state that leaked from one sequence to the next, or went back silently, would
// show as another continuation.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/scorer.h"
#include "model.h"

namespace firstlight::plans {
namespace {

constexpr std::string_view kGraph = R"(graph @recurrent {
  state s.0 = fixed {owner = "layer", rewind = "snapshot"} (conv: f32[2 x 16], s: f32[16 x 8])
  input %tokens : i32[T]
  input %output_rows : i32[O]
  weight @embed : f32[48, 16]
  weight @taps : f32[16, 3]
  weight @norm : f32[16]
  weight @g : f32[2, 16]
  weight @head : f32[48, 16]
  %x = gather_rows @embed, %tokens : f32[T, 16]
  %c, %s1 = conv1d %x, @taps, $s.0 {component = "conv", dilation = 1} : f32[T, 16], state
  %n = rms_norm %c, @norm {eps = 1e-06, offset = 0.0} : f32[T, 16]
  %k0 = slice %n {axis = 1, start = 0, stop = 8} : f32[T, 8]
  %k1 = reshape %k0 {shape = "T,1,8"} : f32[T, 1, 8]
  %k = map %k1 {expr = mul(x0, 0.35)} : f32[T, 1, 8]
  %v = reshape %n {shape = "T,2,8"} : f32[T, 2, 8]
  %g0 = linear %n, @g {compute = "auto"} : f32[T, 2]
  %decay = map %g0 {expr = sub(0.0, mul(0.05, exp(x0)))} : f32[T, 2]
  %beta = map %g0 {expr = sigmoid(x0)} : f32[T, 2]
  %y, %s2 = recur_delta %k, %k, %v, %decay, %beta, %s1 {component = "s"} : f32[T, 2, 8], state
  %y2 = reshape %y {shape = "T,16"} : f32[T, 16]
  %r = map %y2, %x {expr = add(x0, x1)} : f32[T, 16]
  %o = gather_rows %r, %output_rows : f32[O, 16]
  %logits = linear %o, @head {compute = "auto"} : f32[O, 48]
  output logits = %logits
}
)";
constexpr int64_t kStateBytes = 128 + 16 * 8 * 4;  // 2 x 16 floats, 16 x 8 floats

class RecurrentEngine : public testing::TestWithParam<catalog::Backend> {
 protected:
  void SetUp() override {
    auto model = make_model(kGraph, 5);
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_.emplace(*std::move(model));
    auto options = options_for(GetParam());
    options.buckets = {{6, 4}};  // smaller than the prompts
    auto plan = compiler::compile(model_->graph, options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    auto executor = runtime::Executor::create(*std::move(plan), model_->checkpoint, pool_, {});
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    executor_ = *std::move(executor);
  }

  static request::Request greedy(int64_t seed, int64_t prompt_tokens, int64_t max_tokens) {
    request::Request request;
    for (int64_t i = 0; i < prompt_tokens; ++i)
      request.prompt.push_back(static_cast<int32_t>((seed * 31 + i * i * 7 + i * 3) % 48));
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
  }
  static engine::EventSink into(std::vector<int32_t>& tokens) {
    return [&tokens](const request::TokenEvent& event) {
      EXPECT_NE(event.finish, request::FinishReason::kError) << event.error.message();
      if (event.token) tokens.push_back(*event.token);
    };
  }

  ThreadPool pool_{{.num_threads = 2, .pin = false}};
  std::optional<Model> model_;
  std::unique_ptr<runtime::Executor> executor_;
};

TEST_P(RecurrentEngine, ABatchSaysWhatEachWouldSayAlone) {
  std::vector<request::Request> requests;
  for (int64_t i = 0; i < 7; ++i) requests.push_back(greedy(i, 4 + 3 * i, 5 + i));
  auto engine = engine::Engine::create(*executor_, {.max_context = 64, .max_sequences = 3, .page_rows = 4}).value();
  std::vector<std::vector<int32_t>> alone(requests.size()), together(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(engine->submit(requests[i], into(alone[i])).ok());
    engine->run_until_idle();
    EXPECT_EQ(static_cast<int64_t>(alone[i].size()), requests[i].max_tokens);
  }
  for (size_t i = 0; i < requests.size(); ++i) ASSERT_TRUE(engine->submit(requests[i], into(together[i])).ok());
  engine->run_until_idle();
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[0], std::vector<int32_t>(alone[0].size(), alone[0][0])) << "the continuation says something";
}

TEST_P(RecurrentEngine, AdmissionCountsTheState) {
  auto engine = engine::Engine::create(*executor_,
                                       {.max_context = 64, .max_sequences = 8, .state_capacity_bytes = 2 * kStateBytes})
                    .value();
  std::vector<std::vector<int32_t>> outputs(5);
  for (size_t i = 0; i < outputs.size(); ++i)
    ASSERT_TRUE(engine->submit(greedy(static_cast<int64_t>(i), 9, 4), into(outputs[i])).ok());
  engine->run_until_idle();
  for (const auto& tokens : outputs) EXPECT_EQ(tokens.size(), 4u);  // two at a time, nobody refused
  auto small = engine::Engine::create(*executor_, {.max_context = 64, .state_capacity_bytes = kStateBytes - 1}).value();
  const auto refused = small->submit(greedy(0, 9, 4), [](const request::TokenEvent&) { FAIL(); });
  EXPECT_EQ(refused.code(), StatusCode::kOutOfMemory);
}

TEST_P(RecurrentEngine, ScoresDoNotDependOnThePieces) {
  const std::vector<int32_t> tokens = greedy(3, 23, 1).prompt;
  std::vector<std::vector<float>> rows;
  for (const int64_t chunk : {0, 1, 4}) {
    std::vector<float> all;
    const Status scored = engine::score(*executor_, tokens, {.chunk = chunk}, [&](int64_t, std::span<const float> row) {
      all.insert(all.end(), row.begin(), row.end());
    });
    ASSERT_TRUE(scored.ok()) << scored.message();
    rows.push_back(std::move(all));
  }
  for (size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), rows[0].size());
    for (size_t j = 0; j < rows[0].size(); ++j) ASSERT_NEAR(rows[i][j], rows[0][j], 1e-5) << i << " " << j;
  }
}

std::string backend_of(const testing::TestParamInfo<catalog::Backend>& param) {
  return std::string(catalog::backend_name(param.param));
}

INSTANTIATE_TEST_SUITE_P(Backends, RecurrentEngine,
                         testing::Values(catalog::Backend::kReference, catalog::Backend::kCpu), backend_of);

}  // namespace
}  // namespace firstlight::plans
