// SPDX-License-Identifier: Apache-2.0
// Requests to steps; a request wants text, or the embedding of its prompt. The engine owns the sequences' state,
// decides what each step computes, runs it on the executor and turns logits into token events. It knows token ids only.
// submit() and cancel() may be called from any thread; step() belongs to one thread at a time, and events are delivered
// on it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "engine/predictor.h"
#include "engine/sequence.h"
#include "engine/step_runner.h"
#include "engine/waiting_queue.h"
#include "kv/prefix_cache.h"
#include "kv/state_cache.h"
#include "kv/swap_space.h"
#include "runtime/executor.h"

namespace firstlight::engine {

// When a request gets its place.
enum class Admission {
  kReserved,  // when the state of its planned length fits beside what the others may still need: nobody is put out
  kOnDemand,  // when what it computes next fits; who ranks last is put out when there is no more
};

struct EngineOptions {
  int64_t max_context = 2048;        // tokens of prompt and output together
  int64_t max_sequences = 8;         // that run at one time; further ones wait
  int64_t max_waiting = 256;         // beyond that submit() answers kUnavailable
  int64_t step_tokens = 0;           // that one step computes at most; 0, or more: as many as the executor takes
  int64_t state_capacity_bytes = 0;  // of all sequences' state; 0: no limit of its own
  int64_t page_rows = 128;
  int64_t visible_tokens = 0;           // that full attention sees, where it sees the first and the last alone; 0: all
  std::vector<int32_t> stop_token_ids;  // the model's own ends
  Admission admission = Admission::kReserved;
  kv::SwapOptions swap;                         // for sequences put out; what it does not hold is computed again
  bool reuse_prefixes = true;                   // of prompts and answers that were computed before
  int64_t snapshot_bytes = int64_t{256} << 20;  // of fixed states, for that
  double aging_seconds = 30;                    // of waiting, for one level of priority; 0: none
  int64_t draft_tokens = 0;                     // guessed ahead per step and sequence at most (pace.h); 0: none
  bool overlap = false;                         // events are delivered while the next step runs
};

// Prompts only, tokens after a prompt only, or both.
enum class StepKind { kPrefill, kDecode, kMixed };

// Handles of the metrics the engine keeps; default-made ones count nothing.
struct EngineMetrics {
  Counter prompt_tokens, queried_tokens, cached_tokens, output_tokens, swapped_out, recomputed;
  Counter drafted_tokens, accepted_tokens;
  std::array<Counter, 5> requests;  // by FinishReason
  Gauge waiting, running, state_bytes, reusable_bytes, capacity_bytes, swap_host_bytes, swap_disk_bytes;
  std::array<Histogram, 3> step_seconds;  // by StepKind
  Histogram step_tokens, step_sequences;
  Histogram queue_seconds;  // from submit() to a place among the running
  static EngineMetrics in(Metrics& metrics);
};

class Engine {
 public:
  // `executor` must outlive the engine. `predictor`: the model's own head, to draft with (predictor.h); null: drafts
  // are looked up in the text (drafter.h). Errors: those of kv::StateCache::create and kv::SwapSpace::create;
  // kUnsupported for drafts where attention sees later tokens, kInvalidArgument for a predictor of another model.
  static Result<std::unique_ptr<Engine>> create(runtime::Executor& executor, const EngineOptions& options,
                                                EngineMetrics metrics = {}, runtime::Executor* predictor = nullptr);
  ~Engine();

  // Errors: kInvalidArgument (an empty prompt, a token out of range, a prompt that fills the context, or that no step
  // takes whole where it must be: both numbers; a sampling parameter out of range), kOutOfMemory (its state could never
  // fit: both numbers), kUnavailable (too many wait). The sink is called until an event with a finish reason.
  Result<Ticket> submit(request::Request request, EventSink sink);

  // Ends the request at the next step with FinishReason::kCancelled; one that has ended already is left alone.
  void cancel(Ticket ticket);

  // Requests that wait for a place, those that submit() took a moment ago included.
  int64_t num_waiting() const { return num_waiting_.load(); }

  // Runs `work` on the thread that steps, between two steps. Any thread.
  void call(std::function<void()> work);

  // Told on the thread that steps of each step that failed, and of logits that are no numbers. To be set before the
  // first step.
  void set_on_fault(std::function<void(const Status&)> on_fault) { on_fault_ = std::move(on_fault); }

  // One step: schedule, run, commit. False when there was nothing to do.
  bool step();
  void run_until_idle();
  // Steps until `stop` is requested, sleeping while there is nothing to do; then cancels what is left.
  void run(const std::stop_token& stop);

  int64_t vocab_size() const { return vocab_size_; }
  int64_t hidden_width() const { return hidden_width_; }
  const EngineOptions& options() const { return options_; }

 private:
  struct Step;

  Engine(runtime::Executor& executor, const EngineOptions& options, EngineMetrics metrics, kv::StateCache cache,
         std::unique_ptr<kv::SwapSpace> swap);
  Status check(const request::Request& request) const;
  Status check_embedding(int64_t num_tokens) const;

  // engine.cc: the loop
  void take_inbox();
  Status run(Step& step);
  void commit(const Step& step);
  void pool(const plan::SequenceSpan& span, Sequence& sequence);
  void publish(Sequence& sequence);
  void deliver_token(Sequence& sequence, std::span<const float> logits);
  void emit(Sequence& sequence, request::TokenEvent event);
  void deliver_events();
  void finish(Sequence& sequence, request::TokenEvent event);
  void fail_step(const Step& step, const Status& status);
  void tell_fault(const Status& status) const;
  void observe(const Step& step, Clock::time_point start);
  void drop_finished();
  void set_gauges();

  // schedule.cc: who has a place, and what a step computes
  void admit();
  bool has_place_for(const Sequence& next);
  bool take_state(Sequence& next);
  bool state_fits(const Sequence& next) const;
  void give_place(Sequence& next, Clock::time_point now);
  void put_out(Sequence& sequence);
  void release_state(Sequence& sequence);
  void schedule(Step& step);
  int64_t piece_of(const Sequence& sequence, const Step& step) const;
  bool add_part(Step& step, Sequence& sequence, int64_t num_tokens);
  bool make_room(Step& step, Sequence& sequence, int64_t length);
  static void fill(Step& step);

  // prompt_scores.cc: log-probabilities of prompts
  static int64_t rows_to_score(const Sequence& sequence, int64_t num_tokens);
  bool take_prompt_scores(Sequence& sequence, int64_t num_rows, const float* rows);

  // sharing.cc: prompts that several have in common and one computes
  bool is_awaiting(const Sequence& next) const;
  std::vector<Sequence*> give_prompt_to_twins(const Sequence& sequence);

  // speculate.cc: tokens guessed ahead
  void add_drafts(Step& step);
  std::vector<int32_t> guess_for(Sequence& sequence, int64_t most, int64_t rows);
  void deliver_rows(Sequence& sequence, const float* rows);
  void settle_draft(Sequence& sequence, size_t accepted, size_t drafted);
  void drop_snapshot(Sequence& sequence);

  // predict.cc: guesses of the model's own head
  void keep_hidden(Sequence& sequence, int64_t first_row, int64_t count);
  void predict();
  int64_t depth_for(Sequence& sequence, int64_t rows);
  Status predict_for(std::span<Sequence* const> sequences, std::span<const int64_t> depths);
  Status go_on_guessing(std::span<Sequence* const> sequences, std::span<const int64_t> depths,
                        std::vector<Predictor::Part>& parts);

  runtime::Executor& executor_;
  EngineOptions options_;
  EngineMetrics metrics_;
  kv::StateCache cache_;
  std::unique_ptr<kv::PrefixCache> prefixes_;  // null: nothing is reused
  std::unique_ptr<kv::SwapSpace> swap_;
  std::unique_ptr<StepRunner> runner_;  // null: events are delivered at once
  std::unique_ptr<Predictor> predictor_;
  size_t num_own_states_ = 0;  // of the cache's; the predictor's are behind
  int64_t vocab_size_ = 0;
  int64_t hidden_width_ = 0;  // 0: the plan gives no embeddings
  bool has_logits_ = true;
  bool whole_prompts_ = false;  // attention sees later tokens: a prompt is one step's work

  WaitingQueue waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // by rank
  std::unique_ptr<Step> step_;                      // the one under way; its lists are kept
  std::function<void(const Status&)> on_fault_;
  const Sequence* blocked_ = nullptr;                              // had no room, and nothing has been given back since
  std::vector<std::pair<EventSink, request::TokenEvent>> events_;  // not delivered yet

  std::mutex inbox_mutex_;
  std::condition_variable_any inbox_filled_;
  std::vector<std::unique_ptr<Sequence>> inbox_;
  std::vector<Ticket> cancelled_;
  std::vector<std::function<void()>> calls_;
  Ticket next_ticket_ = 1;
  std::atomic<int64_t> num_waiting_{0};
};

// What one step computes.
struct Engine::Step {
  struct Part {
    Sequence* sequence;
    int64_t num_tokens;
    bool wants_output;       // its last row's logits, and those of its draft
    int64_t num_scored = 0;  // rows in front of these that score the next token of a prompt

    int64_t num_rows() const { return num_scored + (wants_output ? 1 : 0); }
  };
  std::vector<Part> parts;
  StepKind kind = StepKind::kDecode;
  int64_t room = 0, output_room = 0;
  size_t most_parts = 0;
  // Of the parts, once they are settled (fill).
  std::vector<int32_t> tokens, positions, output_rows;
  std::vector<plan::SequenceSpan> spans;
  std::vector<kv::SequenceId> states;

  void clear() {
    parts.clear();
    tokens.clear();
    positions.clear();
    output_rows.clear();
    spans.clear();
    states.clear();
  }
  bool has_room() const { return room > 0 && output_room > 0 && parts.size() < most_parts; }
};

}  // namespace firstlight::engine
