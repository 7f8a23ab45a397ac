// SPDX-License-Identifier: Apache-2.0
// Invariant runs (runtime::ExecutorOptions::invariant): every checkpoint of tests/golden gives one request the same
// bytes, tokens and log-probabilities of the whole vocabulary, alone in one piece, in pieces of any length, beside
// others, behind a prefix that was computed before, put out of its place and taken back, and on one thread.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
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

constexpr int64_t kPageRows = 16;
constexpr int64_t kVocab = 64;

std::vector<std::string> checkpoints() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FL_SOURCE_DIR) + "/tests/golden/data")) {
    if (std::filesystem::exists(entry.path() / "golden.json")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// What a request got, as bytes.
struct Output {
  std::string bytes;
  int64_t tokens = 0;
  int num_finishes = 0;
  std::string error;

  void add(const TokenEvent& event) {
    const auto put = [&](int32_t token, double logprob) {
      bytes.append(reinterpret_cast<const char*>(&token), sizeof token);
      bytes.append(reinterpret_cast<const char*>(&logprob), sizeof logprob);
    };
    if (event.token) ++tokens;
    if (event.logprob) put(event.logprob->token, event.logprob->logprob);
    for (const auto& top : event.top_logprobs) put(top.token, top.logprob);
    num_finishes += event.finish != FinishReason::kNone;
    if (!event.error.ok()) error = event.error.message();
  }
};

class Invariance : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<adapt::LoadedModel> bring_up(int threads) const {
    adapt::BringUpOptions options;
    options.num_threads = threads;
    options.invariant = true;
    options.buckets = {{160, 8}};
    auto loaded = adapt::bring_up(path(), options);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded.ok() ? std::move(*loaded) : nullptr;
  }
  static std::string path() { return std::string(FL_SOURCE_DIR) + "/tests/golden/data/" + GetParam(); }

  void SetUp() override {
    model_ = bring_up(2);
    ASSERT_NE(model_, nullptr);
    std::ifstream file(path() + "/golden.json");
    golden_ = Json::parse(file)["prompt"].get<std::vector<int32_t>>();
  }

  // The golden's prompt over and over: longer than a block of keys, than windows, than chunks of recurrences.
  Request request(size_t prompt_tokens, int64_t max_tokens, size_t rotated) const {
    Request made;
    for (size_t i = 0; i < prompt_tokens; ++i) made.prompt.push_back(golden_[(i + rotated) % golden_.size()]);
    made.max_tokens = max_tokens;
    made.ignore_model_stops = true;
    made.sampling = {.temperature = 0.7, .seed = 5, .num_logprobs = static_cast<int>(kVocab)};
    return made;
  }

  EngineOptions plain() const {
    return {.max_context = 256, .max_sequences = 1, .page_rows = kPageRows, .reuse_prefixes = false};
  }

  // The first of `requests` in an engine with these options.
  Output run(adapt::LoadedModel& model, const EngineOptions& options, const std::vector<Request>& requests) {
    metrics_ = Metrics();
    auto engine = Engine::create(*model.executor, options, EngineMetrics::in(metrics_));
    EXPECT_TRUE(engine.ok());
    std::vector<Output> outputs(requests.size());
    for (size_t i = requests.size(); i-- > 0;) {  // the one in question comes last
      const auto ticket =
          (*engine)->submit(requests[i], [&outputs, i](const TokenEvent& event) { outputs[i].add(event); });
      EXPECT_TRUE(ticket.ok()) << ticket.status().message();
      if (i == 1) {
        for (int step = 0; step < 3; ++step) (*engine)->step();
      }
    }
    (*engine)->run_until_idle();
    for (const Output& output : outputs) EXPECT_EQ(output.num_finishes, 1) << output.error;
    return outputs[0];
  }
  double metric(const std::string& name) const {
    const std::string text = metrics_.exposition();
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  std::unique_ptr<adapt::LoadedModel> model_;
  std::vector<int32_t> golden_;
  Metrics metrics_;
};

// Long enough for keys and rows of indices to be cut where nothing forbids it.
class InvarianceOfLength : public Invariance {};

TEST_P(InvarianceOfLength, TheSameBytesOnAnyNumberOfThreads) {
  const Request one = request(GetParam() == "deepseek_v32" ? 2060 : 530, 4, 0);
  EngineOptions options = plain();
  options.max_context = 4096;
  const Output wanted = run(*model_, options, {one});
  ASSERT_EQ(wanted.tokens, 4) << wanted.error;
  options.max_sequences = 3;
  EXPECT_EQ(run(*model_, options, {one, request(30, 9, 1), request(200, 3, 2)}).bytes, wanted.bytes) << "beside others";
  for (const int threads : {1, 3}) {
    const auto other = bring_up(threads);
    ASSERT_NE(other, nullptr);
    options.step_tokens = 150 - threads;
    EXPECT_EQ(run(*other, options, {one}).bytes, wanted.bytes) << threads << " threads";
  }
}

TEST_P(Invariance, TheSameBytesWhateverElseHappens) {
  const Request one = request(100, 14, 0);
  const std::vector<Request> crowd = {
      one, request(7, 20, 3), request(61, 9, 11), request(40, 16, 0), request(1, 22, 5), request(90, 12, 17)};
  const Output wanted = run(*model_, plain(), {one});
  ASSERT_EQ(wanted.tokens, 14) << wanted.error;
  const auto expect_same = [&](const Output& found, const std::string& how) {
    EXPECT_EQ(found.bytes.size(), wanted.bytes.size()) << how;
    size_t first = 0;
    while (first < std::min(found.bytes.size(), wanted.bytes.size()) && found.bytes[first] == wanted.bytes[first]) {
      ++first;
    }
    EXPECT_TRUE(found.bytes == wanted.bytes)
        << how << ": differs at token " << first / (wanted.bytes.size() / static_cast<size_t>(wanted.tokens));
  };

  EngineOptions options = plain();
  for (const int64_t piece : {1, 7, 64}) {
    options.step_tokens = piece;
    expect_same(run(*model_, options, {one}), "pieces of " + std::to_string(piece));
  }
  options = plain();
  options.max_sequences = 6;
  options.step_tokens = 37;
  expect_same(run(*model_, options, crowd), "beside others");

  options.draft_tokens = 4;
  expect_same(run(*model_, options, crowd), "beside others, with guesses");

  options = plain();
  options.reuse_prefixes = true;
  expect_same(run(*model_, options, {one, one}), "behind what was computed before");
  const bool reuses = metric("firstlight_prefix_cache_hit_tokens_total") > 0;

  options.max_sequences = 6;
  options.admission = Admission::kOnDemand;
  const auto measure =
      kv::StateCache::create(model_->executor->plan().states, {.page_rows = kPageRows, .step_tokens = 16});
  ASSERT_TRUE(measure.ok());
  options.state_capacity_bytes = measure->bytes_for_length(114);
  options.step_tokens = 16;
  expect_same(run(*model_, options, crowd), "computed again");
  options.swap.host_bytes = int64_t{1} << 30;
  expect_same(run(*model_, options, crowd), "swapped");
  if (reuses && measure->bytes_for_length(114) > 4 * measure->bytes_for_length(1)) {
    EXPECT_GT(metric("firstlight_preemptions_total{kind=\"swap\"}"), 0);
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Some, InvarianceOfLength, testing::Values("llama", "deepseek_v32", "qwen3_next"), name_of);
INSTANTIATE_TEST_SUITE_P(Checkpoints, Invariance, testing::ValuesIn(checkpoints()), name_of);

}  // namespace
}  // namespace firstlight::engine
