// SPDX-License-Identifier: Apache-2.0
#include "gates/benchmark.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include "kv/state_cache.h"

namespace firstlight::gates {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A few sequences run straight on the executor.
class Runner {
 public:
  static Result<Runner> create(runtime::Executor& executor, int64_t batch, int64_t planned_length) {
    Runner runner(executor,
                  FL_TRY(kv::StateCache::create(executor.plan().states, {.storage = executor.page_storage()})));
    runner.planned_length_ = planned_length;
    for (int64_t i = 0; i < batch; ++i) runner.sequences_.push_back(runner.cache_.add_sequence());
    const auto& plan = executor.plan();
    for (const auto& output : plan.outputs) {
      if (output.name == "logits") runner.vocab_ = plan.buffer(output.buffer).type.shape.back().factor;
    }
    if (runner.vocab_ == 0) return invalid_argument("the model has no output 'logits'");
    return runner;
  }

  // `count` random tokens of one sequence, in pieces; the last piece yields logits.
  Status prefill(int64_t sequence, int64_t count) {
    const int64_t limit = executor_.max_batch_tokens();
    while (count > 0) {
      const int64_t piece = std::min(count, limit);
      count -= piece;
      FL_TRY(run({sequence}, piece, count == 0));
    }
    return ok_status();
  }

  // One token of every sequence.
  Status decode() {
    std::vector<int64_t> all(sequences_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    return run(all, 1, true);
  }

 private:
  Runner(runtime::Executor& executor, kv::StateCache cache) : executor_(executor), cache_(std::move(cache)) {}

  Status run(const std::vector<int64_t>& which, int64_t tokens_each, bool with_logits) {
    tokens_.clear();
    positions_.clear();
    outputs_.clear();
    spans_.clear();
    states_.clear();
    std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(vocab_) - 1);
    for (const int64_t index : which) {
      const kv::SequenceId id = sequences_[static_cast<size_t>(index)];
      const int64_t start = cache_.length(id);
      FL_TRY(cache_.extend(id, start + tokens_each));
      spans_.push_back({.first_row = static_cast<int64_t>(tokens_.size()),
                        .num_tokens = tokens_each,
                        .start_position = start,
                        .planned_length = planned_length_});
      states_.push_back(id);
      for (int64_t i = 0; i < tokens_each; ++i) {
        tokens_.push_back(any(random_));
        positions_.push_back(static_cast<int32_t>(start + i));
      }
      if (with_logits) outputs_.push_back(static_cast<int32_t>(tokens_.size()) - 1);
    }
    return executor_.run({.tokens = tokens_, .positions = positions_, .output_rows = outputs_, .sequences = spans_},
                         cache_.views(states_));
  }

  runtime::Executor& executor_;
  kv::StateCache cache_;
  std::vector<kv::SequenceId> sequences_, states_;
  int64_t planned_length_ = 0, vocab_ = 0;
  std::mt19937 random_{1};
  std::vector<int32_t> tokens_, positions_, outputs_;
  std::vector<plan::SequenceSpan> spans_;
};

Result<BenchmarkRow> measure(runtime::Executor& executor, BenchmarkRow row, int64_t decode_tokens) {
  Runner runner = FL_TRY(Runner::create(executor, row.batch, row.depth + row.prompt + decode_tokens));
  for (int64_t i = 0; i < row.batch; ++i) FL_TRY(runner.prefill(i, row.depth));
  const auto prompt_start = Clock::now();
  for (int64_t i = 0; i < row.batch; ++i) {
    FL_TRY(runner.prefill(i, row.prompt));
    if (i == 0) row.ttft_s = seconds_since(prompt_start);
  }
  row.prompt_tps = static_cast<double>(row.prompt * row.batch) / seconds_since(prompt_start);
  if (decode_tokens > 0) {
    const auto decode_start = Clock::now();
    for (int64_t i = 0; i < decode_tokens; ++i) FL_TRY(runner.decode());
    row.decode_tps = static_cast<double>(decode_tokens * row.batch) / seconds_since(decode_start);
  }
  return row;
}

Status check_range(const char* name, const std::vector<int64_t>& values, int64_t least, int64_t most) {
  for (const int64_t value : values) {
    if (value >= least && value <= most) continue;
    return invalid_argument(std::string(name) + " " + std::to_string(value) + ": " + std::to_string(least) + " to " +
                            std::to_string(most) + " wanted");
  }
  return ok_status();
}

}  // namespace

Result<std::vector<BenchmarkRow>> benchmark(runtime::Executor& executor, const BenchmarkOptions& options) {
  constexpr int64_t kMostTokens = int64_t{1} << 28;  // the sum of three lengths is a position, an int32
  FL_TRY(check_range("prompt", options.prompts, 1, kMostTokens));
  FL_TRY(check_range("depth", options.depths, 0, kMostTokens));
  FL_TRY(check_range("decode tokens", {options.decode_tokens}, 0, kMostTokens));
  FL_TRY(check_range("batch", options.batches, 1, std::min(executor.max_batch_tokens(), executor.max_batch_outputs())));
  FL_TRY(measure(executor, {.prompt = 32, .depth = 0, .batch = 1}, 8));
  std::vector<BenchmarkRow> rows;
  for (const int64_t depth : options.depths) {
    for (const int64_t batch : options.batches) {
      for (const int64_t prompt : options.prompts) {
        rows.push_back(
            FL_TRY(measure(executor, {.prompt = prompt, .depth = depth, .batch = batch}, options.decode_tokens)));
        if (options.row_done) options.row_done();
      }
    }
  }
  return rows;
}

}  // namespace firstlight::gates
