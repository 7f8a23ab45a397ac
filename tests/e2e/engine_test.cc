// SPDX-License-Identifier: Apache-2.0
// The engine over a real model: a tiny checkpoint of tests/golden on the reference backend, from submit() to the last
// event, and behind the server's generator. Stands above the modules because bringing a model up takes all of them.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "adapt/bring_up.h"
#include "base/json.h"
#include "engine/scorer.h"
#include "runtime/probe.h"
#include "server/engine_generator.h"
#include "server/readiness_keeper.h"

namespace firstlight::engine {
namespace {

using request::FinishReason;
using request::Request;
using request::TokenEvent;

struct Output {
  std::vector<int32_t> tokens;
  std::vector<TokenEvent> events;
  FinishReason finish = FinishReason::kNone;
  int num_finishes = 0;
};

class EngineTest : public testing::Test {
 protected:
  static std::string golden_path() { return std::string(FL_SOURCE_DIR) + "/tests/golden/data/llama"; }

  static void SetUpTestSuite() {
    adapt::BringUpOptions options;
    options.backend = catalog::Backend::kReference;
    options.num_threads = 1;
    options.buckets = {{8, 4}};  // smaller than the prompt, so that it comes in pieces
    auto loaded = adapt::bring_up(golden_path(), options);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = std::move(*loaded);
    std::ifstream file(golden_path() + "/golden.json");
    const Json golden = Json::parse(file);
    prompt_ = golden["prompt"].get<std::vector<int32_t>>();
    continuation_ = golden["continuation"].get<std::vector<int32_t>>();
  }
  static void TearDownTestSuite() { model_ = nullptr; }

  std::unique_ptr<Engine> make(const EngineOptions& options = {.max_context = 64, .page_rows = 4}) {
    auto engine = Engine::create(*model_->executor, options, EngineMetrics::in(metrics));
    EXPECT_TRUE(engine.ok());
    return std::move(*engine);
  }
  static Request greedy(std::vector<int32_t> prompt, int64_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
  }
  static EventSink into(Output& output) {
    return [&output](const TokenEvent& event) {
      EXPECT_EQ(output.num_finishes, 0) << "an event after the last";
      if (event.token) output.tokens.push_back(*event.token);
      output.events.push_back(event);
      output.finish = event.finish;
      output.num_finishes += event.finish != FinishReason::kNone;
    };
  }
  static Output run(Engine& engine, Request request) {
    Output output;
    const auto ticket = engine.submit(std::move(request), into(output));
    EXPECT_TRUE(ticket.ok()) << ticket.status().message();
    engine.run_until_idle();
    EXPECT_EQ(output.num_finishes, 1);
    return output;
  }
  // That requests use: what is only kept to be used again goes when room is wanted.
  double state_bytes() const {
    return metrics_gauge("firstlight_state_bytes") - metrics_gauge("firstlight_state_reusable_bytes");
  }
  double metrics_gauge(const std::string& name) const {
    const std::string text = metrics.exposition();
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  static inline std::unique_ptr<adapt::LoadedModel> model_;
  static inline std::vector<int32_t> prompt_, continuation_;
  Metrics metrics;
};

TEST_F(EngineTest, ContinuesAsTheGoldenDoes) {
  const auto engine = make();
  const Output output = run(*engine, greedy(prompt_, static_cast<int64_t>(continuation_.size())));
  EXPECT_EQ(output.tokens, continuation_);
  EXPECT_EQ(output.finish, FinishReason::kLength);
  EXPECT_EQ(state_bytes(), 0) << "all state has been given back";
  EXPECT_EQ(metrics_gauge("firstlight_queue_wait_seconds_count"), 1);
}

TEST_F(EngineTest, ABatchSaysWhatEachWouldSayAlone) {
  const auto engine = make({.max_context = 64, .max_sequences = 3, .page_rows = 4});
  std::vector<Request> requests;
  for (int i = 0; i < 7; ++i) {
    Request one = greedy({prompt_.begin() + i, prompt_.begin() + i + 4 + 3 * i}, 5 + i);
    if (i % 2 == 1) {
      one.sampling.temperature = 1;
      one.sampling.seed = 100 + static_cast<uint64_t>(i);
      one.sampling.presence_penalty = 0.5;
    }
    requests.push_back(one);
  }
  std::vector<Output> alone;
  for (const Request& request : requests) alone.push_back(run(*engine, request));
  std::vector<Output> together(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) ASSERT_TRUE(engine->submit(requests[i], into(together[i])).ok());
  engine->run_until_idle();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].tokens, alone[i].tokens) << i;
    EXPECT_EQ(together[i].finish, FinishReason::kLength);
    EXPECT_EQ(together[i].num_finishes, 1);
  }
  EXPECT_EQ(state_bytes(), 0);
}

TEST_F(EngineTest, SeedsAreStreamsOfTheirOwn) {
  const auto engine = make();
  Request request = greedy(prompt_, 20);
  request.sampling.temperature = 1.5;
  request.sampling.seed = 5;
  const auto first = run(*engine, request).tokens;
  EXPECT_EQ(run(*engine, request).tokens, first);
  request.sampling.seed = 6;
  EXPECT_NE(run(*engine, request).tokens, first);
  request.sampling.seed.reset();
  const auto fresh = run(*engine, request).tokens;
  EXPECT_NE(run(*engine, request).tokens, fresh) << "no seed is a fresh one each time";
}

TEST_F(EngineTest, StopTokensEndTheOutputAndAreNotPartOfIt) {
  const auto engine = make({.max_context = 64, .page_rows = 4, .stop_token_ids = {continuation_[5]}});
  Output models = run(*engine, greedy(prompt_, 16));
  EXPECT_EQ(models.tokens, std::vector<int32_t>(continuation_.begin(), continuation_.begin() + 5));
  EXPECT_EQ(models.finish, FinishReason::kStop);
  EXPECT_EQ(models.events.back().stop_token, continuation_[5]);
  EXPECT_FALSE(models.events.back().token.has_value());
  Request ignoring = greedy(prompt_, 16);
  ignoring.ignore_model_stops = true;
  EXPECT_EQ(run(*engine, ignoring).tokens, continuation_);
  ignoring.stop_token_ids = {continuation_[2]};
  EXPECT_EQ(run(*engine, ignoring).tokens.size(), 2u);
}

TEST_F(EngineTest, TheContextIsALimit) {
  const auto engine = make({.max_context = 40, .page_rows = 4});
  const Output cut = run(*engine, greedy(prompt_, 1000));  // 36 tokens
  EXPECT_EQ(cut.tokens.size(), 40 - prompt_.size());
  EXPECT_EQ(cut.finish, FinishReason::kLength);
  const std::vector<int32_t> full(40, 3);
  const auto refused = engine->submit(greedy(full, 1), [](const auto&) { FAIL(); });
  ASSERT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("40"), std::string::npos);
  EXPECT_NE(refused.status().message().find("39"), std::string::npos);
}

TEST_F(EngineTest, RefusesWhatCannotRun) {
  const auto engine = make();
  const auto code = [&](Request request) {
    return engine->submit(std::move(request), [](const auto&) { FAIL(); }).code();
  };
  EXPECT_EQ(code(greedy({}, 1)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(greedy({-1}, 1)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(greedy({static_cast<int32_t>(engine->vocab_size())}, 1)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(greedy({1}, -1)), StatusCode::kInvalidArgument);
  Request hot = greedy({1}, 1);
  hot.sampling.temperature = -1;
  EXPECT_EQ(code(hot), StatusCode::kInvalidArgument);
  EXPECT_FALSE(engine->step());
}

TEST_F(EngineTest, TheQueueHasAnEnd) {
  const auto engine = make({.max_context = 64, .max_sequences = 1, .max_waiting = 2, .page_rows = 4});
  Output first, second;
  ASSERT_TRUE(engine->submit(greedy(prompt_, 2), into(first)).ok());
  ASSERT_TRUE(engine->submit(greedy(prompt_, 2), into(second)).ok());
  EXPECT_EQ(engine->submit(greedy(prompt_, 2), [](const auto&) { FAIL(); }).code(), StatusCode::kUnavailable);
  engine->run_until_idle();
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(run(*engine, greedy(prompt_, 2)).tokens, first.tokens) << "there is room again";
}

TEST_F(EngineTest, CancelsWhatRunsAndWhatWaits) {
  const auto engine = make({.max_context = 64, .max_sequences = 1, .page_rows = 4});
  Output running, waiting, last;
  const auto running_ticket = engine->submit(greedy(prompt_, 20), into(running));
  const auto waiting_ticket = engine->submit(greedy(prompt_, 20), into(waiting));
  ASSERT_TRUE(engine->submit(greedy(prompt_, 3), into(last)).ok());
  while (running.tokens.size() < 3) ASSERT_TRUE(engine->step());
  engine->cancel(*waiting_ticket);
  engine->cancel(*running_ticket);
  engine->cancel(*running_ticket);
  engine->cancel(999);
  engine->step();
  EXPECT_EQ(running.finish, FinishReason::kCancelled);
  EXPECT_EQ(running.tokens.size(), 3u);
  EXPECT_EQ(waiting.finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting.tokens.size(), 0u) << "it never started";
  engine->run_until_idle();
  EXPECT_EQ(last.tokens, std::vector<int32_t>(continuation_.begin(), continuation_.begin() + 3));
  engine->cancel(*running_ticket);
  engine->run_until_idle();
  EXPECT_EQ(running.num_finishes, 1);
  EXPECT_EQ(state_bytes(), 0);
}

TEST_F(EngineTest, StateHasACapacity) {
  const auto measure = kv::StateCache::create(model_->executor->plan().states, {.page_rows = 4});
  ASSERT_TRUE(measure.ok());
  const int64_t capacity = 2 * measure->bytes_for_length(40);
  const auto engine = make({.max_context = 128, .max_sequences = 8, .state_capacity_bytes = capacity, .page_rows = 4});
  std::vector<Output> outputs(5);
  for (Output& output : outputs) ASSERT_TRUE(engine->submit(greedy(prompt_, 4), into(output)).ok());
  const auto large = engine->submit(greedy(prompt_, 80), [](const auto&) { FAIL(); });
  EXPECT_EQ(large.code(), StatusCode::kOutOfMemory) << "it can never fit";
  EXPECT_NE(large.status().message().find(std::to_string(capacity)), std::string::npos) << large.status().message();
  double most = 0;
  while (engine->step()) most = std::max(most, state_bytes());
  EXPECT_LE(most, static_cast<double>(capacity));
  EXPECT_GT(most, 0);
  for (const Output& output : outputs) {
    EXPECT_EQ(output.tokens, std::vector<int32_t>(continuation_.begin(), continuation_.begin() + 4));
  }
  EXPECT_EQ(state_bytes(), 0);
}

TEST_F(EngineTest, LogprobsAreThoseOfTheRawLogits) {
  const auto engine = make();
  Request request = greedy(prompt_, 4);
  request.sampling.num_logprobs = 3;
  request.sampling.logit_bias[0] = -100;  // changes what is sampled, not what is told
  const Output output = run(*engine, request);
  std::vector<int32_t> all = prompt_;
  all.insert(all.end(), output.tokens.begin(), output.tokens.end());
  std::vector<std::vector<float>> rows;
  const Status scored =
      score(*model_->executor, all, {.chunk = 3, .first_row = static_cast<int64_t>(prompt_.size()) - 1},
            [&](int64_t, std::span<const float> logits) { rows.emplace_back(logits.begin(), logits.end()); });
  ASSERT_TRUE(scored.ok()) << scored.message();
  ASSERT_EQ(rows.size(), 5u);
  for (size_t i = 0; i < 4; ++i) {
    const TokenEvent& event = output.events[i];
    double sum = 0;
    for (const float logit : rows[i]) sum += std::exp(static_cast<double>(logit));
    const auto token = static_cast<size_t>(*event.token);
    EXPECT_NEAR(event.logprob->logprob, static_cast<double>(rows[i][token]) - std::log(sum), 1e-5);
    ASSERT_EQ(event.top_logprobs.size(), 3u);
    EXPECT_GE(event.top_logprobs[0].logprob, event.top_logprobs[1].logprob);
  }
}

// Of a prompt in pieces, with and without output, several of the same at once, and where its beginning was computed
// before: each token's is what the rows of the scorer say.
TEST_F(EngineTest, PromptsAreScoredAsTheScorerDoes) {
  std::vector<std::vector<float>> rows;
  ASSERT_TRUE(score(*model_->executor, prompt_, {.chunk = 3}, [&](int64_t, std::span<const float> logits) {
                rows.emplace_back(logits.begin(), logits.end());
              }).ok());
  const auto expect_scores = [&](const Output& output, size_t num_top) {
    const auto& scores = output.events.at(0).prompt_scores;
    ASSERT_EQ(scores.size(), prompt_.size() - 1);
    for (size_t i = 0; i < scores.size(); ++i) {
      double sum = 0;
      for (const float logit : rows[i]) sum += std::exp(static_cast<double>(logit));
      EXPECT_EQ(scores[i].chosen.token, prompt_[i + 1]);
      EXPECT_NEAR(scores[i].chosen.logprob, rows[i][static_cast<size_t>(prompt_[i + 1])] - std::log(sum), 1e-5) << i;
      ASSERT_EQ(scores[i].top.size(), num_top);
      if (num_top == 0) continue;
      const auto best = std::max_element(rows[i].begin(), rows[i].end());
      EXPECT_EQ(scores[i].top[0].token, best - rows[i].begin());
      EXPECT_NEAR(scores[i].top[0].logprob, *best - std::log(sum), 1e-5);
    }
  };
  const auto engine = make();
  Request request = greedy(prompt_, 3);
  EXPECT_TRUE(run(*engine, request).events.at(0).prompt_scores.empty());
  request.score_prompt = true;
  request.sampling.num_logprobs = 2;
  const Output output = run(*engine, request);  // the one before left its prompt in the cache
  EXPECT_EQ(output.tokens, std::vector<int32_t>(continuation_.begin(), continuation_.begin() + 3));
  EXPECT_EQ(output.events[0].cached_tokens, 0);
  expect_scores(output, 2);

  std::vector<Output> several(4);
  for (size_t i = 0; i < several.size(); ++i) {
    request.max_tokens = i % 2 == 0 ? 0 : 2;
    request.sampling.num_logprobs = i == 3 ? 0 : 2;
    ASSERT_TRUE(engine->submit(request, into(several[i])).ok());
  }
  engine->run_until_idle();
  for (size_t i = 0; i < several.size(); ++i) {
    expect_scores(several[i], i == 3 ? 0 : 2);
    EXPECT_EQ(several[i].tokens.size(), i % 2 == 0 ? 0u : 2u);
    EXPECT_EQ(several[i].finish, FinishReason::kLength);
  }

  request = greedy(std::vector<int32_t>(64, 5), 0);  // without output the whole context is the prompt's
  EXPECT_EQ(run(*engine, request).finish, FinishReason::kLength);
  request.prompt.push_back(5);
  EXPECT_EQ(engine->submit(request, [](const TokenEvent&) {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(state_bytes(), 0);
}

TEST_F(EngineTest, ManyThreadsMaySubmitAndCancelWhileItRuns) {
  const auto engine = make({.max_context = 64, .max_sequences = 4, .page_rows = 4});
  server::Readiness readiness;
  readiness.set_ready();
  server::EngineGenerator generator(*engine, readiness, nullptr);
  std::atomic<int> finished{0}, wrong{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      for (int k = 0; k < 5; ++k) {
        const auto output = std::make_shared<Output>();
        const auto done = std::make_shared<std::atomic<bool>>(false);
        const auto ticket = generator.submit(greedy(prompt_, 6), [&, output, done](const TokenEvent& event) {
          if (event.token) output->tokens.push_back(*event.token);
          if (event.finish == FinishReason::kNone) return;
          ++finished;
          const std::vector<int32_t> expected(continuation_.begin(), continuation_.begin() + 6);
          if (event.finish != FinishReason::kCancelled && output->tokens != expected) ++wrong;
          *done = true;
        });
        if (!ticket.ok()) continue;
        if ((i + k) % 3 == 0) generator.cancel(*ticket);
        while (!*done) std::this_thread::yield();
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(finished, 20);
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(readiness.is_ready());
}

// Llama's spec with attention in which every token of a prompt sees all others.
adapt::BringUpOptions seeing_all(const std::string& spec) {
  std::ifstream shipped(std::string(FL_SOURCE_DIR) + "/architectures/llama.lua");
  std::string text{std::istreambuf_iterator<char>(shipped), {}};
  const std::string call = "std.attention.gqa(h,";
  text.replace(text.find(call), call.size(), "seeing_all(h,");
  text.insert(text.find("return architecture"), R"(local function seeing_all(h, w, p, batch, i)
  local function heads(name, count)
    return reshape(linear(h, w(name .. ".weight", { count * p.head_dim, p.hidden })), "T", count, p.head_dim)
  end
  local q, k = heads("q_proj", p.heads), heads("k_proj", p.kv_heads)
  local kv = batch.state.kv[i]:append { k = rope(k, batch.positions, p.rope), v = heads("v_proj", p.kv_heads) }
  local y = attend { q = rope(q, batch.positions, p.rope), state = kv, scale = p.scale, causal = false }
  return linear(reshape(y, "T", p.hidden), w("o_proj.weight", { p.hidden, p.hidden }))
end
)");
  std::ofstream(spec) << text;
  adapt::BringUpOptions options;
  options.backend = catalog::Backend::kReference;
  options.num_threads = 1;
  options.buckets = {{8, 8}};
  options.intake.spec_file = spec;
  options.intake.allow_unbound = {"attention_bias"};
  return options;
}

std::vector<float> first_row(runtime::Executor& executor, std::span<const int32_t> tokens, int64_t chunk) {
  std::vector<float> row;
  const Status status = score(executor, tokens, {.chunk = chunk}, [&](int64_t position, std::span<const float> logits) {
    if (position == 0) row.assign(logits.begin(), logits.end());
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return row;
}

TEST_F(EngineTest, WhereTokensSeeLaterOnesPromptsStayWhole) {
  const auto spec = std::filesystem::temp_directory_path() / ("seeing_all_" + std::to_string(::getpid()) + ".lua");
  const auto loaded = adapt::bring_up(golden_path(), seeing_all(spec.string()));
  std::filesystem::remove(spec);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  runtime::Executor& executor = *(*loaded)->executor;
  const std::span<const int32_t> six = std::span(prompt_).first(6);
  EXPECT_EQ(first_row(*model_->executor, six, 2), first_row(*model_->executor, six.first(2), 0)) << "causal: as ever";
  EXPECT_NE(first_row(executor, six, 0), first_row(executor, six.first(2), 0)) << "the first token sees the last";
  const auto ignore = [](int64_t, std::span<const float>) {};
  for (const int64_t chunk : {1, 2, 5}) {
    EXPECT_EQ(score(executor, six, {.chunk = chunk}, ignore).code(), StatusCode::kInvalidArgument) << chunk;
  }
  EXPECT_EQ(score(executor, std::span(prompt_).first(9), {}, ignore).code(), StatusCode::kInvalidArgument);

  auto engine = Engine::create(executor, {.max_context = 64, .max_sequences = 3, .page_rows = 4});
  ASSERT_TRUE(engine.ok());
  const auto refused =
      (*engine)->submit(greedy({prompt_.begin(), prompt_.begin() + 9}, 1), [](const auto&) { FAIL(); });
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("at most 8"), std::string::npos) << refused.status().message();
  std::vector<Output> alone, together(5);
  std::vector<Request> requests;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(greedy({prompt_.begin() + i, prompt_.begin() + i + 4 + i}, 12 - i));  // 4 to 8 tokens
    alone.push_back(run(**engine, requests.back()));
  }
  for (size_t i = 0; i < 5; ++i) ASSERT_TRUE((*engine)->submit(requests[i], into(together[i])).ok());
  (*engine)->run_until_idle();
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(together[i].tokens, alone[i].tokens) << i;
}

TEST_F(EngineTest, CallsRunBetweenTwoSteps) {
  const auto engine = make({.max_context = 64});
  std::vector<std::string> order;
  ASSERT_TRUE(engine->submit(greedy({prompt_[0]}, 2), [&](const auto&) { order.emplace_back("token"); }).ok());
  engine->step();
  engine->call([&] { order.emplace_back("call"); });
  engine->run_until_idle();
  EXPECT_EQ(order, (std::vector<std::string>{"token", "call", "token"}));
  engine->call([&] { order.emplace_back("idle"); });
  engine->step();
  EXPECT_EQ(order.back(), "idle");
}

// A device whose kernels spoil what they compute, and come to their senses: not ready at once, and ready again only
// after a check has passed between two steps.
TEST_F(EngineTest, SpoiltLogitsAreAFaultUntilACheckPasses) {
  std::atomic<bool> broken{false};
  adapt::BringUpOptions options;
  options.backend = catalog::Backend::kReference;
  options.num_threads = 1;
  options.fault = [&](const runtime::StepCall& call) {
    if (!broken || call.outputs.empty() || call.outputs[0].dtype != tensor::DType::kF32) return;
    *call.outputs[0].as<float>() = std::nanf("");
  };
  const auto loaded = adapt::bring_up(golden_path(), options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const auto made = Engine::create(*(*loaded)->executor, {.max_context = 64});
  ASSERT_TRUE(made.ok());
  server::Readiness readiness;
  server::EngineGenerator generator(**made, readiness, nullptr);
  readiness.set_ready();
  const auto ask = [&] {
    std::promise<FinishReason> finish;
    const auto ticket = generator.submit(greedy(prompt_, 2), [&](const TokenEvent& event) {
      if (event.finish != FinishReason::kNone) finish.set_value(event.finish);
    });
    EXPECT_TRUE(ticket.ok());
    return finish.get_future().get();
  };
  EXPECT_EQ(ask(), FinishReason::kLength);
  EXPECT_TRUE(readiness.is_ready());
  broken = true;
  EXPECT_EQ(ask(), FinishReason::kError);
  EXPECT_FALSE(readiness.is_ready());
  EXPECT_NE(readiness.reason().find("NaN"), std::string::npos) << readiness.reason();
  std::atomic<int> checks{0};
  const server::ReadinessKeeper keeper(
      readiness,
      [&]() -> Status {
        EXPECT_TRUE(generator.run_between_steps([] {}));
        if (++checks == 3) broken = false;
        return broken ? internal_error("not reproduced") : ok_status();
      },
      {.first_pause_s = 0.001}, nullptr, nullptr);
  for (int i = 0; i < 60000 && !readiness.is_ready(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(readiness.is_ready());
  EXPECT_EQ(checks, 3);
  EXPECT_EQ(ask(), FinishReason::kLength);
}

// The length that a config declares is the limit as it stands, whatever a rope's factor says it was stretched by.
TEST_F(EngineTest, TheContextIsWhatTheConfigSays) {
  adapt::BringUpOptions options;
  options.backend = catalog::Backend::kReference;
  options.num_threads = 1;
  for (const char* family : {"llama_yarn", "llama_longrope", "llama_dynamic", "qwen3_yarn", "llama"}) {
    const std::string folder = std::string(FL_SOURCE_DIR) + "/tests/golden/data/" + family;
    const auto loaded = adapt::bring_up(folder, options);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    std::ifstream file(folder + "/config.json");
    EXPECT_EQ((*loaded)->context(), Json::parse(file)["max_position_embeddings"].get<int64_t>()) << family;
  }
}

// As many tokens as the capacity was made for, with everything that a request may ask for at once: log-probabilities of
// all tokens, penalties, many sequences. What was let in ends by itself, and state stays within what was promised.
TEST_F(EngineTest, ThePlannedBytesAreEnoughForTheWorstRequest) {
  const auto measure = kv::StateCache::create(model_->executor->plan().states, {.page_rows = 4});
  ASSERT_TRUE(measure.ok());
  const int64_t capacity = 4 * measure->bytes_for_length(64);
  const auto engine = make({.max_context = 64, .max_sequences = 4, .state_capacity_bytes = capacity, .page_rows = 4});
  std::vector<Output> outputs(6);
  for (Output& output : outputs) {
    Request request = greedy(prompt_, 64 - static_cast<int64_t>(prompt_.size()));
    request.sampling.temperature = 1;
    request.sampling.presence_penalty = request.sampling.frequency_penalty = 1;
    request.sampling.repetition_penalty = 1.3;
    request.sampling.num_logprobs = 20;
    request.sampling.temperature = 1;
    request.sampling.presence_penalty = request.sampling.frequency_penalty = 1;
    request.sampling.repetition_penalty = 1.3;
    request.sampling.num_logprobs = 20;
    request.ignore_model_stops = true;
    ASSERT_TRUE(engine->submit(std::move(request), into(output)).ok());
  }
  double most = 0;
  while (engine->step()) most = std::max(most, state_bytes());
  for (const Output& output : outputs) {
    EXPECT_EQ(output.finish, FinishReason::kLength);
    EXPECT_EQ(output.tokens.size(), 64 - prompt_.size());
  }
  EXPECT_LE(most, static_cast<double>(capacity));
}

// Two sets of angles: which one holds is settled by the planned length, and no prefix is shared across them.
TEST_F(EngineTest, NoPrefixIsSharedAcrossRopeSets) {
  adapt::BringUpOptions options;
  options.backend = catalog::Backend::kReference;
  options.num_threads = 1;
  options.buckets = {{8, 4}};
  const auto loaded = adapt::bring_up(golden_path() + "_longrope", options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const auto engine_with = [&](bool reuse) {
    auto made = Engine::create(*(*loaded)->executor, {.max_context = 256, .page_rows = 4, .reuse_prefixes = reuse});
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  };
  const auto reusing = engine_with(true), cold = engine_with(false);
  const auto cached = [](const Output& output) { return output.events.back().cached_tokens; };
  const auto length = static_cast<int64_t>(prompt_.size());
  const Output near = run(*reusing, greedy(prompt_, 4));
  const Output far = run(*reusing, greedy(prompt_, 80));  // beyond 64
  EXPECT_EQ(cached(far), 0);
  EXPECT_EQ(far.tokens, run(*cold, greedy(prompt_, 80)).tokens);
  EXPECT_GT(cached(run(*reusing, greedy(prompt_, 64 - length))), 0) << "up to 64 tokens the set is the first one's";
  const Output further = run(*reusing, greedy(prompt_, 90));
  EXPECT_GT(cached(further), 0) << "beyond it is the second one's, however long";
  EXPECT_EQ(further.tokens, run(*cold, greedy(prompt_, 90)).tokens);
  EXPECT_EQ(near.tokens, run(*cold, greedy(prompt_, 4)).tokens);
}

TEST_F(EngineTest, AStopCancelsWhatIsLeft) {
  const auto engine = make();
  server::Readiness readiness;
  readiness.set_ready();
  std::atomic<int> cancelled{0};
  {
    server::EngineGenerator generator(*engine, readiness, nullptr);
    Request request = greedy({prompt_[0]}, 60);
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(generator
                      .submit(request,
                              [&](const TokenEvent& event) {
                                cancelled +=
                                    event.finish == FinishReason::kCancelled || event.finish == FinishReason::kError;
                              })
                      .ok());
    }
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_FALSE(readiness.is_ready());
}

}  // namespace
}  // namespace firstlight::engine
