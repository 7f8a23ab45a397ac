// SPDX-License-Identifier: Apache-2.0
// Requests to steps. The engine owns the sequences' state, decides what each step computes, runs it on the executor and
// turns logits into token events. It knows token ids only. submit() and cancel() may be called from any thread; step()
// belongs to one thread at a time, and events are delivered on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "base/metrics.h"
#include "engine/sampler.h"
#include "kv/state_cache.h"
#include "request/request.h"
#include "runtime/executor.h"

namespace firstlight::engine {

struct EngineOptions {
  int64_t max_context = 2048;        // tokens of prompt and output together
  int64_t max_sequences = 8;         // that run at one time; further ones wait
  int64_t max_waiting = 256;         // beyond that submit() answers kUnavailable
  int64_t state_capacity_bytes = 0;  // of all sequences' state; 0: no limit of its own
  int64_t page_rows = 128;
  std::vector<int32_t> stop_token_ids;  // the model's own ends
};

// Handles of the metrics the engine keeps; default-made ones count nothing.
struct EngineMetrics {
  Counter prompt_tokens, output_tokens, requests, steps;
  Gauge waiting, running, state_bytes;
  Histogram step_seconds;
  Histogram queue_seconds;  // from submit() to a place among the running
  static EngineMetrics in(Metrics& metrics);
};

using Ticket = uint64_t;
using EventSink = std::function<void(const request::TokenEvent&)>;

class Engine {
 public:
  // `executor` must outlive the engine. Errors: those of kv::StateCache::create.
  static Result<std::unique_ptr<Engine>> create(runtime::Executor& executor, const EngineOptions& options,
                                                EngineMetrics metrics = {});
  ~Engine();

  // Errors: kInvalidArgument (an empty prompt, a token out of range, a prompt that fills the context, or that no step
  // takes whole where it must be: both numbers; a sampling parameter out of range), kUnavailable (too many wait). The
  // sink is called until an event with a finish reason.
  Result<Ticket> submit(request::Request request, EventSink sink);

  // Ends the request at the next step with FinishReason::kCancelled; one that has ended already is left alone.
  void cancel(Ticket ticket);

  // One step: schedule, run, commit. False when there was nothing to do.
  bool step();
  void run_until_idle();
  // Steps until `stop` is requested, sleeping while there is nothing to do; then cancels what is left.
  void run(const std::stop_token& stop);

  int64_t vocab_size() const { return vocab_size_; }
  const EngineOptions& options() const { return options_; }

 private:
  struct Sequence;
  struct Step;

  Engine(runtime::Executor& executor, const EngineOptions& options, EngineMetrics metrics, kv::StateCache cache);
  void take_inbox();
  void admit();
  Step schedule();
  Status run(Step& step);
  void commit(const Step& step);
  void deliver_token(Sequence& sequence, std::span<const float> logits);
  void finish(Sequence& sequence, request::TokenEvent event);
  void fail_step(const Step& step, const Status& status);
  void drop_finished();

  runtime::Executor& executor_;
  EngineOptions options_;
  EngineMetrics metrics_;
  kv::StateCache cache_;
  int64_t vocab_size_ = 0;
  bool whole_prompts_ = false;  // attention sees later tokens: a prompt is one step's work

  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;

  std::mutex inbox_mutex_;
  std::condition_variable_any inbox_filled_;
  std::vector<std::unique_ptr<Sequence>> inbox_;
  std::vector<Ticket> cancelled_;
  Ticket next_ticket_ = 1;
  std::atomic<int64_t> num_waiting_{0};
};

}  // namespace firstlight::engine
