// SPDX-License-Identifier: Apache-2.0
// The engine under pressure, over models of every kind of state: too little room, sequences put out and taken back,
// computed prompts used again, priorities, events delivered late. Whatever it does, each request's text is the one it
// gets alone in an engine that does none of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "adapt/bring_up.h"
#include "base/json.h"
#include "engine/engine.h"

namespace firstlight::engine {
namespace {

using request::FinishReason;
using request::Request;
using request::TokenEvent;

constexpr int64_t kPageRows = 4;

// What may follow depends on what came, and the text ends after so many tokens of its own.
class EveryThird : public request::TokenMask {
 public:
  explicit EveryThird(int length) : length_(length) {}
  void set_stop_tokens(std::span<const int32_t> ids) override { (void)ids; }
  Status apply(std::span<uint8_t> allowed) override {
    for (size_t i = 0; i < allowed.size(); ++i) {
      if (static_cast<int32_t>(i) % 3 != (last_ + count_) % 3) allowed[i] = 0;
    }
    return ok_status();
  }
  void accept(int32_t token) override {
    last_ = token;
    ++count_;
  }
  bool is_over() const override { return count_ >= length_; }

 private:
  int32_t length_, last_ = 0, count_ = 0;
};

struct Output {
  std::vector<int32_t> tokens;
  std::vector<double> logprobs;  // of each token, then of the likeliest beside it
  FinishReason finish = FinishReason::kNone;
  int num_finishes = 0;
  int64_t cached_tokens = 0, drafted_tokens = 0, accepted_tokens = 0;
  std::vector<double> scores;  // of the prompt
  std::string error;
  bool operator==(const Output& other) const { return tokens == other.tokens && finish == other.finish; }
};

class EnginePressure : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string whole = GetParam();
    const std::string model = whole.substr(0, whole.find('+'));
    const std::string state = whole.substr(std::min(model.size() + 1, whole.size()));
    const std::string path = std::string(FL_SOURCE_DIR) + "/tests/golden/data/" + model;
    adapt::BringUpOptions options;
    options.backend = catalog::Backend::kReference;
    options.num_threads = 1;
    options.buckets = {{16, 6}};
    if (state == "evict") options.evict = compiler::Eviction{.sinks = 5, .window = 9};
    options.predict = state == "heads";
    if (state == "int8") options.state_dtype = tensor::DType::kQ8_0;
    if (state == "int4") options.state_dtype = tensor::DType::kQ4_1S;
    auto loaded = adapt::bring_up(path, options);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = std::move(*loaded);
    std::ifstream file(path + "/golden.json");
    const auto golden = Json::parse(file);
    prompt_ = golden["prompt"].get<std::vector<int32_t>>();
    measure_ = std::make_unique<kv::StateCache>(
        kv::StateCache::create(model_->states(), {.page_rows = kPageRows, .step_tokens = 16}).value());
  }

  // Prompts that begin alike, most of them longer than a step.
  std::vector<Request> draw_requests(int count) const {
    std::mt19937 random(11);
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) {
      Request request;
      const size_t length = 3 + random() % (prompt_.size() - 3);
      request.prompt.assign(prompt_.begin(), prompt_.begin() + static_cast<std::ptrdiff_t>(length));
      if (i % 3 == 0) request.prompt[random() % length] = static_cast<int32_t>(random() % 50);
      request.max_tokens = 1 + static_cast<int64_t>(random() % 24);
      request.sampling.temperature = i % 2 == 0 ? 0 : 1;
      request.sampling.seed = static_cast<uint64_t>(i);
      request.score_prompt = i % 4 == 1;
      requests.push_back(request);
    }
    return requests;
  }

  EngineOptions roomy() const { return {.max_context = 128, .max_sequences = 4, .page_rows = kPageRows}; }
  EngineOptions plain() const {
    EngineOptions options = roomy();
    options.max_sequences = 1;
    options.reuse_prefixes = false;
    return options;
  }
  // Room for one sequence at its longest, and for half of another.
  EngineOptions tight() const {
    EngineOptions options = roomy();
    options.max_sequences = 6;
    options.admission = Admission::kOnDemand;
    options.state_capacity_bytes = measure_->bytes_for_length(64) * 3 / 2;
    options.snapshot_bytes = 4 * measure_->snapshot_bytes();
    return options;
  }

  static EventSink into(Output& output) {
    return [&output](const TokenEvent& event) {
      EXPECT_EQ(output.num_finishes, 0) << "an event after the last";
      if (event.token) output.tokens.push_back(*event.token);
      if (event.logprob) output.logprobs.push_back(event.logprob->logprob);
      for (const request::TokenLogprob& one : event.top_logprobs) output.logprobs.push_back(one.logprob);
      output.finish = event.finish;
      output.num_finishes += event.finish != FinishReason::kNone;
      output.cached_tokens = event.cached_tokens;
      output.drafted_tokens = event.drafted_tokens;
      output.accepted_tokens = event.accepted_tokens;
      for (const auto& one : event.prompt_scores) output.scores.push_back(one.chosen.logprob);
      if (!event.error.ok()) output.error = event.error.message();
    };
  }
  // With the model's own head where it has been loaded with one and there is something for it to do.
  auto make_engine(const EngineOptions& options) {
    metrics = Metrics();
    runtime::Executor* head =
        options.draft_tokens > 0 || options.state_capacity_bytes > 0 ? model_->predictor.get() : nullptr;
    return Engine::create(*model_->executor, options, EngineMetrics::in(metrics), head);
  }
  std::vector<Output> run(const EngineOptions& options, const std::vector<Request>& requests) {
    const auto engine = make_engine(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    std::vector<Output> outputs(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto ticket = (*engine)->submit(requests[i], into(outputs[i]));
      EXPECT_TRUE(ticket.ok()) << ticket.status().message();
    }
    while ((*engine)->step()) {
      if (options.state_capacity_bytes > 0) {
        EXPECT_LE(metric("firstlight_state_bytes"), static_cast<double>(options.state_capacity_bytes));
      }
    }
    EXPECT_EQ(metric("firstlight_state_bytes"), metric("firstlight_state_reusable_bytes")) << "nobody uses any";
    EXPECT_EQ(metric("firstlight_swap_bytes{kind=\"memory\"}") + metric("firstlight_swap_bytes{kind=\"disk\"}"), 0);
    return outputs;
  }
  double metric(const std::string& name) const {
    const std::string text = metrics.exposition();
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }
  void expect_equal(const std::vector<Output>& found, const std::vector<Output>& wanted, const char* how) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(found[i].tokens, wanted[i].tokens) << how << ", request " << i << " " << found[i].error;
      EXPECT_EQ(found[i].finish, wanted[i].finish) << how << ", request " << i << " " << found[i].error;
      EXPECT_EQ(found[i].num_finishes, 1);
      ASSERT_EQ(found[i].scores.size(), wanted[i].scores.size()) << how << ", request " << i;
      for (size_t k = 0; k < wanted[i].scores.size(); ++k) {
        EXPECT_NEAR(found[i].scores[k], wanted[i].scores[k], 1e-4) << how << ", request " << i << ", token " << k + 1;
      }
    }
  }

  std::unique_ptr<adapt::LoadedModel> model_;
  std::unique_ptr<kv::StateCache> measure_;
  std::vector<int32_t> prompt_;
  Metrics metrics;
};

TEST_P(EnginePressure, NoTextDependsOnIt) {
  const std::vector<Request> requests = draw_requests(14);
  const std::vector<Output> wanted = run(plain(), requests);

  EngineOptions options = roomy();
  options.overlap = true;
  expect_equal(run(options, requests), wanted, "overlapped");
  EXPECT_GT(metric("firstlight_prefix_cache_hit_tokens_total"), 0);

  expect_equal(run(tight(), requests), wanted, "computed again");
  const bool grows = measure_->bytes_for_length(64) > measure_->bytes_for_length(1);
  if (grows) {
    EXPECT_GT(metric("firstlight_preemptions_total{kind=\"recompute\"}"), 0);
  }

  options = tight();
  options.swap = {.host_bytes = options.state_capacity_bytes, .disk_bytes = 8 * options.state_capacity_bytes};
  expect_equal(run(options, requests), wanted, "swapped");
  if (grows) {
    EXPECT_GT(metric("firstlight_preemptions_total{kind=\"swap\"}"), 0);
  }
  EXPECT_EQ(metric("firstlight_preemptions_total{kind=\"recompute\"}"), 0);

  options.overlap = true;
  options.step_tokens = 5;
  options.swap.host_bytes = 0;
  options.swap.disk_bytes = options.state_capacity_bytes / 2;
  expect_equal(run(options, requests), wanted, "all at once");

  options = tight();
  options.admission = Admission::kReserved;
  expect_equal(run(options, requests), wanted, "reserved");
  EXPECT_EQ(metric("firstlight_preemptions_total{kind=\"recompute\"}"), 0);
}

// Guesses of further tokens change no text, greedy or sampled, among others and under pressure.
TEST_P(EnginePressure, NoTextDependsOnGuesses) {
  std::vector<Request> requests = draw_requests(6);
  for (Request& request : requests) {  // texts that repeat themselves
    const std::vector<int32_t> once = request.prompt;
    request.prompt.insert(request.prompt.end(), once.begin(), once.end());
    request.sampling.logit_bias = {{3, 5}, {5, 5}, {8, 5}};
    request.sampling.presence_penalty = 0.5;
  }
  const std::vector<Output> wanted = run(plain(), requests);
  EXPECT_EQ(metric("firstlight_draft_tokens_total"), 0);
  EngineOptions options = plain();
  options.draft_tokens = 6;
  const std::vector<Output> guessed = run(options, requests);
  expect_equal(guessed, wanted, "alone");
  int64_t drafted = 0, accepted = 0;  // each request is told its own
  for (const Output& output : guessed) {
    drafted += output.drafted_tokens;
    accepted += output.accepted_tokens;
  }
  EXPECT_GT(drafted, accepted);
  EXPECT_EQ(metric("firstlight_draft_tokens_total"), static_cast<double>(drafted));
  EXPECT_EQ(metric("firstlight_draft_tokens_accepted_total"), static_cast<double>(accepted));
  options = roomy();
  options.draft_tokens = 3;
  expect_equal(run(options, requests), wanted, "beside others");
  options = tight();
  options.draft_tokens = 6;
  expect_equal(run(options, requests), wanted, "computed again");
  options.swap = {.host_bytes = options.state_capacity_bytes, .disk_bytes = 8 * options.state_capacity_bytes};
  options.overlap = true;
  expect_equal(run(options, requests), wanted, "swapped");
}

// Masks, penalties, log-probabilities, stop tokens, and clients who leave at what they were waiting for.
TEST_P(EnginePressure, NoOptionDependsOnGuessesOrPressure) {
  constexpr int32_t kLeavesAt = 5;
  const auto draw = [&] {
    std::vector<Request> requests = draw_requests(8);
    for (size_t i = 0; i < requests.size(); ++i) {
      Request& request = requests[i];
      request.max_tokens = 56;                                           // guesses are rare at first, among many
      request.sampling.logit_bias = {{3, 6}, {4, 6}, {kLeavesAt, 5.5}};  // texts that repeat themselves
      request.sampling.num_logprobs = static_cast<int>(i % 3) - 1;
      if (i % 2 == 0) request.mask = std::make_shared<EveryThird>(20 + static_cast<int>(5 * i));
      if (i % 4 == 1) request.sampling.repetition_penalty = 1.2;
      if (i % 4 == 2) request.sampling.frequency_penalty = 0.7;
      if (i % 4 == 3) request.stop_token_ids = {4};
    }
    return requests;
  };
  // Every fourth client cancels from within the event, as one that has read its stop string does.
  const auto run_all = [&](const EngineOptions& options) {
    const auto engine = make_engine(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    std::vector<Request> requests = draw();
    std::vector<Output> outputs(requests.size());
    std::vector<Ticket> tickets(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      tickets[i] = *(*engine)->submit(std::move(requests[i]), [&, i](const TokenEvent& event) {
        Output& output = outputs[i];
        if (i % 4 == 0 && !output.tokens.empty() && output.tokens.back() == kLeavesAt) return;
        into(output)(event);
        if (i % 4 == 0 && event.token == kLeavesAt && event.finish == FinishReason::kNone) {
          output.num_finishes = 1;
          (*engine)->cancel(tickets[i]);
        }
      });
    }
    (*engine)->run_until_idle();
    EXPECT_EQ(metric("firstlight_state_bytes"), metric("firstlight_state_reusable_bytes"));
    return outputs;
  };
  const auto expect_same = [&](const EngineOptions& options, const std::vector<Output>& wanted, const char* how) {
    const std::vector<Output> found = run_all(options);
    expect_equal(found, wanted, how);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(found[i].logprobs.size(), wanted[i].logprobs.size()) << how << ", request " << i;
      for (size_t k = 0; k < wanted[i].logprobs.size(); ++k) {
        EXPECT_NEAR(found[i].logprobs[k], wanted[i].logprobs[k], 1e-4) << how << ", request " << i;
      }
    }
  };
  const std::vector<Output> wanted = run_all(plain());
  EXPECT_FALSE(wanted[2].logprobs.empty());
  for (const bool overlap : {false, true}) {
    EngineOptions options = tight();
    options.draft_tokens = 5;
    options.overlap = overlap;
    expect_same(options, wanted, "computed again");
    const std::string model = GetParam();
    const bool sure = model == "llama" || model == "qwen3_next" || model.ends_with("heads");
    if (sure) {
      EXPECT_GT(metric("firstlight_draft_tokens_total"), 0);
      EXPECT_GT(metric("firstlight_preemptions_total{kind=\"recompute\"}"), 0);
    }
    options.swap = {.host_bytes = options.state_capacity_bytes, .disk_bytes = 8 * options.state_capacity_bytes};
    expect_same(options, wanted, "swapped");
    if (sure) {
      EXPECT_GT(metric("firstlight_preemptions_total{kind=\"swap\"}"), 0);
    }
  }
}

// A stop inside a guess ends the output there.
TEST_P(EnginePressure, AStopInsideAGuessStops) {
  Request request;
  request.prompt = prompt_;
  request.max_tokens = 24;
  request.sampling.temperature = 0;
  request.sampling.logit_bias = {{7, 100}};  // 7 7 7 …: guesses are right
  request.stop_token_ids = {9};
  EngineOptions options = plain();
  options.draft_tokens = 8;
  const Output without = run(plain(), {request})[0];
  const Output with = run(options, {request})[0];
  EXPECT_EQ(with.tokens, without.tokens);
  EXPECT_EQ(with.tokens.size(), 24u);
  if (!model_->predictor) {
    EXPECT_GT(metric("firstlight_draft_tokens_accepted_total"), 10);
  }
  request.stop_token_ids = {7};
  EXPECT_EQ(run(options, {request})[0], run(plain(), {request})[0]);
}

// Choices of one prompt compute it once; prompts that begin alike compute the blocks in common once.
TEST_P(EnginePressure, APromptInCommonIsComputedOnce) {
  Request request;
  request.prompt = prompt_;
  request.max_tokens = 7;
  std::vector<Request> choices(4, request);
  for (size_t i = 0; i < choices.size(); ++i) choices[i].sampling.seed = i;
  const std::vector<Output> wanted = run(plain(), choices);
  const auto length = static_cast<double>(prompt_.size());
  EngineOptions options = roomy();
  expect_equal(run(options, choices), wanted, "four choices");
  EXPECT_EQ(metric("firstlight_prompt_tokens_total"), length);
  EXPECT_EQ(metric("firstlight_prefix_cache_hit_tokens_total"), 3 * length);
  options.draft_tokens = 2;
  expect_equal(run(options, choices), wanted, "four choices that guess");
  options.draft_tokens = 0;
  options.max_sequences = 2;  // two come later
  expect_equal(run(options, choices), wanted, "two at a time");
  options = tight();
  options.swap.host_bytes = int64_t{1} << 30;
  expect_equal(run(options, choices), wanted, "little room");

  choices[1].prompt.back() = (prompt_.back() + 1) % 50;
  choices[2].prompt.resize(prompt_.size() - 2);
  const std::vector<Output> others = run(plain(), choices);
  expect_equal(run(roomy(), choices), others, "beginnings in common");
  if (measure_->block_tokens() <= 8 && !measure_->has_fixed_states()) {
    EXPECT_LE(metric("firstlight_prompt_tokens_total"), length + 3 * static_cast<double>(measure_->block_tokens()));
  }
}

TEST_P(EnginePressure, WhoeverComputesAPromptForOthersMayLeave) {
  Request request;
  request.prompt = prompt_;  // longer than a step
  request.max_tokens = 5;
  request.sampling.temperature = 0;
  const Output wanted = run(plain(), {request})[0];
  const auto engine = Engine::create(*model_->executor, roomy(), EngineMetrics::in(metrics));
  ASSERT_TRUE(engine.ok());
  std::vector<Output> outputs(4);
  std::vector<Ticket> tickets;
  for (size_t i = 0; i < 3; ++i) tickets.push_back(*(*engine)->submit(request, into(outputs[i])));
  ASSERT_TRUE((*engine)->step());
  EXPECT_EQ(metric("firstlight_requests_running"), 1) << "the others wait for it";
  request.priority = 1;  // who goes first waits for nobody
  tickets.push_back(*(*engine)->submit(request, into(outputs[3])));
  ASSERT_TRUE((*engine)->step());
  EXPECT_GE(metric("firstlight_requests_running"), 2);
  (*engine)->cancel(tickets[0]);
  (*engine)->run_until_idle();
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(outputs[i].tokens, wanted.tokens) << i;
}

// A second time nothing but the end of the prompt is computed, and an answer can be gone on from as well.
TEST_P(EnginePressure, WhatWasComputedIsUsedAgain) {
  const auto engine = Engine::create(*model_->executor, roomy(), EngineMetrics::in(metrics));
  ASSERT_TRUE(engine.ok());
  Request request;
  request.prompt = prompt_;
  request.max_tokens = 9;
  request.sampling.temperature = 0;
  std::vector<Output> outputs(4);
  const auto answer = [&](size_t i) {
    ASSERT_TRUE((*engine)->submit(request, into(outputs[i])).ok());
    (*engine)->run_until_idle();
  };
  answer(0);
  EXPECT_EQ(outputs[0].cached_tokens, 0);
  answer(1);
  EXPECT_EQ(outputs[1].tokens, outputs[0].tokens);
  const auto prompt = static_cast<int64_t>(prompt_.size());
  EXPECT_GE(outputs[1].cached_tokens, prompt / 2);
  EXPECT_LT(outputs[1].cached_tokens, prompt);
  request.cache_salt = "another user";
  answer(2);
  EXPECT_EQ(outputs[2].cached_tokens, 0);
  EXPECT_EQ(outputs[2].tokens, outputs[0].tokens);
  request.cache_salt.clear();
  request.prompt.insert(request.prompt.end(), outputs[0].tokens.begin(), outputs[0].tokens.begin() + 8);
  request.max_tokens = 1;
  answer(3);
  EXPECT_EQ(outputs[3].tokens[0], outputs[0].tokens[8]);
  const int64_t block = measure_->block_tokens();
  if ((prompt + 7) / block > (prompt - 1) / block) {
    EXPECT_GT(outputs[3].cached_tokens, outputs[1].cached_tokens);
  }
}

TEST_P(EnginePressure, AHigherPriorityDoesNotWait) {
  for (const bool swap : {false, true}) {
    EngineOptions options = tight();
    options.max_sequences = 2;
    if (swap) options.swap.host_bytes = int64_t{1} << 30;
    const auto engine = Engine::create(*model_->executor, options, EngineMetrics::in(metrics));
    ASSERT_TRUE(engine.ok());
    Request low;
    low.prompt = prompt_;
    low.max_tokens = 12;
    low.sampling.temperature = 0;
    Request high = low;
    high.max_tokens = 3;
    high.priority = 1;
    std::vector<Output> outputs(4);
    for (size_t i = 0; i < 3; ++i) ASSERT_TRUE((*engine)->submit(low, into(outputs[i])).ok());
    while (outputs[0].tokens.size() < 2) ASSERT_TRUE((*engine)->step());
    ASSERT_TRUE((*engine)->submit(high, into(outputs[3])).ok());
    while (outputs[3].num_finishes == 0) ASSERT_TRUE((*engine)->step());
    EXPECT_EQ(outputs[0].num_finishes + outputs[1].num_finishes + outputs[2].num_finishes, 0);
    (*engine)->run_until_idle();
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(outputs[i].tokens, outputs[0].tokens);
    EXPECT_EQ(outputs[0].tokens.size(), 12u);
    outputs[0].tokens.resize(3);
    EXPECT_EQ(outputs[3].tokens, outputs[0].tokens);
  }
}

TEST_P(EnginePressure, CancelledOnesGiveEverythingBack) {
  EngineOptions options = tight();
  options.swap = {.host_bytes = options.state_capacity_bytes, .disk_bytes = 8 * options.state_capacity_bytes};
  const auto engine = Engine::create(*model_->executor, options, EngineMetrics::in(metrics));
  ASSERT_TRUE(engine.ok());
  const std::vector<Request> requests = draw_requests(14);
  std::vector<Output> outputs(requests.size());
  std::vector<Ticket> tickets;
  for (size_t i = 0; i < requests.size(); ++i) tickets.push_back(*(*engine)->submit(requests[i], into(outputs[i])));
  std::mt19937 random(3);
  for (int step = 0; (*engine)->step(); ++step) {
    if (step % 3 == 2) (*engine)->cancel(tickets[random() % tickets.size()]);
  }
  int cancelled = 0;
  for (const Output& output : outputs) {
    EXPECT_EQ(output.num_finishes, 1);
    cancelled += output.finish == FinishReason::kCancelled;
  }
  EXPECT_GT(cancelled, 2);
  EXPECT_EQ(metric("firstlight_state_bytes"), metric("firstlight_state_reusable_bytes"));
  EXPECT_EQ(metric("firstlight_swap_bytes{kind=\"memory\"}") + metric("firstlight_swap_bytes{kind=\"disk\"}"), 0);
}

// Logs; windows; latents; fixed states beside logs and alone; logs at a rate; rows chosen by an index; shared layers;
// heads that predict.
INSTANTIATE_TEST_SUITE_P(Models, EnginePressure,
                         testing::Values("llama", "gemma3", "deepseek_v3", "qwen3_next", "mamba2", "deepseek_v4",
                                         "deepseek_v32", "kimi_linear", "gemma4_shared", "lfm2", "llama+evict",
                                         "qwen3_next+evict", "gemma3+int8", "deepseek_v3+int4",
                                         "deepseek_v3_no_q_lora+heads", "glm4_moe+heads", "qwen3_next+heads"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace firstlight::engine
