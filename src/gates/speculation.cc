// SPDX-License-Identifier: Apache-2.0
#include "gates/speculation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <random>

#include "base/metrics.h"
#include "engine/engine.h"

namespace firstlight::gates {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPassage = 48;  // tokens that the repeating text repeats
constexpr int32_t kFew = 12;      // different tokens of the contrary text

// Of the first few tokens any but the one that followed the last two, or three, when they stood here before.
class Contrary : public request::TokenMask {
 public:
  explicit Contrary(std::span<const int32_t> prompt) {
    for (const int32_t token : prompt) accept(token);
  }
  void set_stop_tokens(std::span<const int32_t> ids) override { (void)ids; }
  Status apply(std::span<uint8_t> allowed) override {
    std::fill(allowed.begin(), allowed.end(), uint8_t{0});
    std::fill_n(allowed.begin(), kFew, uint8_t{1});
    for (const int32_t followed : {after_pair_[pair()], after_three_[three()]}) {
      if (followed > 0) allowed[static_cast<size_t>(followed) - 1] = 0;
    }
    return ok_status();
  }
  void accept(int32_t token) override {
    after_pair_[pair()] = after_three_[three()] = token + 1;
    last_ = {last_[1], last_[2], token};
  }
  bool is_over() const override { return false; }

 private:
  size_t pair() const { return static_cast<size_t>(last_[1] * kFew + last_[2]); }
  size_t three() const { return static_cast<size_t>(last_[0]) * kFew * kFew + pair(); }

  std::array<int32_t, 3> last_{};
  std::vector<int32_t> after_pair_ = std::vector<int32_t>(kFew * kFew);  // the token and one; 0: none yet
  std::vector<int32_t> after_three_ = std::vector<int32_t>(kFew * kFew * kFew);
};

struct Run {
  std::vector<std::vector<int32_t>> tokens;  // by request
  double tps = 0;
  int64_t drafted = 0, accepted = 0;
};

class Bench {
 public:
  Bench(runtime::Executor& executor, runtime::Executor* predictor, const SpeculationOptions& options)
      : executor_(executor), predictor_(predictor), options_(options) {}

  Result<SpeculationRow> row(const std::string& text, int64_t prompt, int64_t batch) {
    SpeculationRow row{.text = text, .prompt = prompt, .batch = batch};
    std::vector<double> plain, with, ratios;
    for (int round = 0; round < options_.rounds; ++round) {
      const Run one = FL_TRY(run(row, 0));
      const Run other = FL_TRY(run(row, options_.draft_tokens));
      plain.push_back(one.tps);
      with.push_back(other.tps);
      ratios.push_back(one.tps > 0 ? other.tps / one.tps : 0);
      row.same = row.same && one.tokens == other.tokens;
      row.drafted = other.drafted;
      row.accepted = other.accepted;
      row.tokens = 0;
      for (const auto& tokens : other.tokens) row.tokens += static_cast<int64_t>(tokens.size());
    }
    row.plain_tps = median(plain);
    row.tps = median(with);
    row.ratio = median(ratios);
    return row;
  }

 private:
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  std::vector<request::Request> requests(const SpeculationRow& row, int64_t vocabulary) const {
    const bool repeats = row.text == "repeating", contrary = row.text == "contrary";
    std::vector<request::Request> all;
    std::mt19937 random(1);
    std::uniform_int_distribution<int32_t> any(0, (contrary ? kFew : static_cast<int32_t>(vocabulary)) - 1);
    for (int64_t i = 0; i < row.batch; ++i) {
      request::Request request{.max_tokens = options_.decode_tokens, .ignore_model_stops = true};
      for (int64_t at = 0; at < row.prompt; ++at) {
        const bool copies = repeats && at >= kPassage;
        request.prompt.push_back(copies ? request.prompt[static_cast<size_t>(at - kPassage)] : any(random));
      }
      request.sampling.temperature = repeats ? 0 : 1;
      if (contrary) request.mask = std::make_shared<Contrary>(request.prompt);
      request.sampling.seed = static_cast<uint64_t>(i);
      all.push_back(std::move(request));
    }
    return all;
  }

  // Times count from when every request has its first token.
  Result<Run> run(const SpeculationRow& row, int64_t draft_tokens) {
    Metrics metrics;
    const auto counts = engine::EngineMetrics::in(metrics);
    const auto engine = FL_TRY(engine::Engine::create(executor_,
                                                      {.max_context = row.prompt + options_.decode_tokens,
                                                       .max_sequences = row.batch,
                                                       .max_waiting = row.batch,
                                                       .reuse_prefixes = false,
                                                       .draft_tokens = draft_tokens},
                                                      counts, draft_tokens > 0 ? predictor_ : nullptr));
    Run run;
    run.tokens.resize(static_cast<size_t>(row.batch));
    Status error;
    int64_t started = 0, timed = 0;
    Clock::time_point start;
    std::vector<request::Request> all = requests(row, engine->vocab_size());
    for (size_t i = 0; i < all.size(); ++i) {
      FL_TRY(engine->submit(std::move(all[i]), [&, i](const request::TokenEvent& event) {
        if (!event.error.ok()) error = event.error;
        if (!event.token) return;
        timed += started == row.batch ? 1 : 0;
        if (run.tokens[i].empty() && ++started == row.batch) start = Clock::now();
        run.tokens[i].push_back(*event.token);
      }));
    }
    engine->run_until_idle();
    FL_TRY(std::move(error));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    run.tps = timed > 0 ? static_cast<double>(timed) / seconds : 0;
    run.drafted = static_cast<int64_t>(counts.drafted_tokens.value());
    run.accepted = static_cast<int64_t>(counts.accepted_tokens.value());
    return run;
  }

  runtime::Executor& executor_;
  runtime::Executor* predictor_;
  const SpeculationOptions& options_;
};

}  // namespace

Result<std::vector<SpeculationRow>> benchmark_speculation(runtime::Executor& executor, runtime::Executor* predictor,
                                                          const SpeculationOptions& options) {
  const int64_t most = std::min(executor.max_batch_sequences(), executor.max_batch_outputs());
  for (const int64_t batch : options.batches) {
    if (batch < 1 || batch > most) {
      return invalid_argument("batch " + std::to_string(batch) + ": 1 to " + std::to_string(most) + " wanted");
    }
  }
  for (const auto& output : executor.plan().outputs) {
    if (output.name != "logits" || executor.plan().buffer(output.buffer).type.shape.back().factor >= kFew) continue;
    return invalid_argument("a vocabulary of " + std::to_string(kFew) + " tokens at least wanted");
  }
  if (options.decode_tokens < 2 || options.draft_tokens < 1 || options.rounds < 1) {
    return invalid_argument("two tokens to generate, one to guess and one round at least wanted");
  }
  Bench bench(executor, predictor, options);
  FL_TRY(bench.row("drawn", std::min<int64_t>(32, options.prompts.at(0)), 1));  // warms up
  std::vector<SpeculationRow> rows;
  for (const int64_t batch : options.batches) {
    for (const int64_t prompt : options.prompts) {
      for (const char* text : {"repeating", "drawn", "contrary"}) {
        rows.push_back(FL_TRY(bench.row(text, prompt, batch)));
        if (options.row_done) options.row_done();
      }
    }
  }
  return rows;
}

}  // namespace firstlight::gates
