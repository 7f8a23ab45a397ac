// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "plan/look_ahead.h"

namespace firstlight::engine {

using request::FinishReason;
using request::TokenEvent;

// A request on its way through the engine.
struct Engine::Sequence {
  Ticket ticket = 0;
  request::Request request;
  EventSink sink;
  Sampler sampler;
  std::chrono::steady_clock::time_point submitted;
  int64_t planned_length = 0;   // the most tokens it can reach
  std::vector<int32_t> tokens;  // prompt, then output
  int64_t num_output = 0;
  kv::SequenceId state = -1;  // -1: not admitted
  int64_t num_computed = 0;   // tokens whose state is there
  bool cancelled = false;
  bool finished = false;
};

// What one step computes.
struct Engine::Step {
  struct Part {
    Sequence* sequence;
    int64_t num_tokens;
    bool wants_output;  // its last row's logits
  };
  std::vector<Part> parts;
  std::vector<int32_t> tokens, positions, output_rows;
  std::vector<plan::SequenceSpan> spans;
  std::vector<kv::SequenceId> states;
};

EngineMetrics EngineMetrics::in(Metrics& metrics) {
  EngineMetrics handles;
  handles.prompt_tokens = metrics.counter("firstlight_prompt_tokens_total", "prompt tokens computed");
  handles.output_tokens = metrics.counter("firstlight_output_tokens_total", "tokens generated");
  handles.requests = metrics.counter("firstlight_requests_total", "requests finished, for whatever reason");
  handles.steps = metrics.counter("firstlight_steps_total", "engine steps run");
  handles.waiting = metrics.gauge("firstlight_requests_waiting", "requests that wait for a place");
  handles.running = metrics.gauge("firstlight_requests_running", "requests that are being computed");
  handles.state_bytes = metrics.gauge("firstlight_state_bytes", "bytes of sequence state (KV cache) in use");
  handles.step_seconds = metrics.histogram("firstlight_step_seconds", "time of one engine step",
                                           {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5});
  handles.queue_seconds =
      metrics.histogram("firstlight_queue_wait_seconds", "from a request's submission to its place in the batch",
                        {0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300});
  return handles;
}

Result<std::unique_ptr<Engine>> Engine::create(runtime::Executor& executor, const EngineOptions& options,
                                               EngineMetrics metrics) {
  auto cache = FL_TRY(kv::StateCache::create(executor.plan().states, {.page_rows = options.page_rows,
                                                                      .capacity_bytes = options.state_capacity_bytes,
                                                                      .storage = executor.page_storage()}));
  return std::unique_ptr<Engine>(new Engine(executor, options, metrics, std::move(cache)));
}

Engine::Engine(runtime::Executor& executor, const EngineOptions& options, EngineMetrics metrics, kv::StateCache cache)
    : executor_(executor),
      options_(options),
      metrics_(metrics),
      cache_(std::move(cache)),
      whole_prompts_(plan::sees_later_tokens(executor.plan())) {
  for (const auto& output : executor.plan().outputs) {
    if (output.name == "logits") vocab_size_ = executor.plan().buffer(output.buffer).type.shape.back().factor;
  }
}

Engine::~Engine() = default;

Result<Ticket> Engine::submit(request::Request request, EventSink sink) {
  if (request.prompt.empty()) return invalid_argument("the prompt has no tokens, at least one wanted");
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= vocab_size_) {
      return invalid_argument("prompt token " + std::to_string(token) + ", an id below " + std::to_string(vocab_size_) +
                              " wanted");
    }
  }
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  if (prompt_tokens >= options_.max_context) {
    return invalid_argument("the prompt has " + std::to_string(prompt_tokens) + " tokens, at most " +
                            std::to_string(options_.max_context - 1) + " fit a context of " +
                            std::to_string(options_.max_context));
  }
  if (whole_prompts_ && prompt_tokens > executor_.max_batch_tokens()) {
    return invalid_argument("the prompt has " + std::to_string(prompt_tokens) + " tokens, at most " +
                            std::to_string(executor_.max_batch_tokens()) +
                            " fit a step, and attention that sees later tokens wants all of them in one");
  }
  if (request.max_tokens < 1) {
    return invalid_argument("max_tokens is " + std::to_string(request.max_tokens) + ", 1 or more wanted");
  }
  for (const int32_t token : request.stop_token_ids) {
    if (token < 0 || token >= vocab_size_) {
      return invalid_argument("stop token " + std::to_string(token) + ", an id below " + std::to_string(vocab_size_) +
                              " wanted");
    }
  }
  FL_TRY(request::check(request.sampling, vocab_size_));
  request.max_tokens = std::min(request.max_tokens, options_.max_context - prompt_tokens);
  auto sequence = std::make_unique<Sequence>(Sequence{.ticket = 0,
                                                      .request = std::move(request),
                                                      .sink = std::move(sink),
                                                      .sampler = Sampler({}, {}),
                                                      .submitted = std::chrono::steady_clock::now(),
                                                      .planned_length = 0,
                                                      .tokens = {}});
  sequence->sampler = Sampler(sequence->request.sampling, sequence->request.prompt);
  sequence->tokens = sequence->request.prompt;
  sequence->planned_length = prompt_tokens + sequence->request.max_tokens;
  const std::scoped_lock lock(inbox_mutex_);
  if (num_waiting_.load() >= options_.max_waiting) {
    return unavailable(std::to_string(num_waiting_.load()) + " requests wait already, at most " +
                       std::to_string(options_.max_waiting) + " may");
  }
  const Ticket ticket = sequence->ticket = next_ticket_++;
  ++num_waiting_;
  inbox_.push_back(std::move(sequence));
  inbox_filled_.notify_one();
  return ticket;
}

void Engine::cancel(Ticket ticket) {
  const std::scoped_lock lock(inbox_mutex_);
  cancelled_.push_back(ticket);
  inbox_filled_.notify_one();
}

void Engine::take_inbox() {
  std::vector<Ticket> cancelled;
  {
    const std::scoped_lock lock(inbox_mutex_);
    for (auto& sequence : inbox_) waiting_.push_back(std::move(sequence));
    inbox_.clear();
    cancelled.swap(cancelled_);
  }
  for (const Ticket ticket : cancelled) {
    for (auto& sequence : waiting_) sequence->cancelled = sequence->cancelled || sequence->ticket == ticket;
    for (auto& sequence : running_) sequence->cancelled = sequence->cancelled || sequence->ticket == ticket;
  }
  for (auto& sequence : waiting_) {
    if (sequence->cancelled) finish(*sequence, {.finish = FinishReason::kCancelled, .error = {}});
  }
  for (auto& sequence : running_) {
    if (sequence->cancelled && !sequence->finished)
      finish(*sequence, {.finish = FinishReason::kCancelled, .error = {}});
  }
  drop_finished();
}

// First come, first served; a sequence is let in only when the state of its planned length fits beside what the others
// may still need, so that nobody has to be put out again.
void Engine::admit() {
  while (!waiting_.empty() && static_cast<int64_t>(running_.size()) < options_.max_sequences) {
    Sequence& next = *waiting_.front();
    int64_t needed = cache_.bytes_for_length(next.planned_length);
    for (const auto& other : running_) needed += cache_.bytes_for_length(other->planned_length);
    if (options_.state_capacity_bytes > 0 && needed > options_.state_capacity_bytes) {
      if (!running_.empty()) return;
      finish(next, {.finish = FinishReason::kError,
                    .error = out_of_memory("state for " + std::to_string(next.planned_length) +
                                           " tokens: " + std::to_string(needed) + " bytes needed, " +
                                           std::to_string(options_.state_capacity_bytes) + " available")});
      drop_finished();
      continue;
    }
    next.state = cache_.add_sequence();
    metrics_.queue_seconds.observe(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - next.submitted).count());
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    --num_waiting_;
  }
}

// Every sequence that has its prompt behind it computes one token; the room that is left in the batch goes to the first
// prompts, in pieces. Prompts that must stay whole go first: behind the others one might never find the room.
Engine::Step Engine::schedule() {
  Step step;
  int64_t room = executor_.max_batch_tokens();
  int64_t output_room = executor_.max_batch_outputs();
  const auto most_parts = static_cast<size_t>(executor_.max_batch_sequences());
  const auto add = [&](Sequence& sequence, int64_t num_tokens) {
    const auto all = static_cast<int64_t>(sequence.tokens.size());
    const bool wants_output = sequence.num_computed + num_tokens == all;
    step.spans.push_back({.first_row = static_cast<int64_t>(step.tokens.size()),
                          .num_tokens = num_tokens,
                          .start_position = sequence.num_computed,
                          .planned_length = sequence.planned_length});
    step.states.push_back(sequence.state);
    for (int64_t i = 0; i < num_tokens; ++i) {
      step.tokens.push_back(sequence.tokens[static_cast<size_t>(sequence.num_computed + i)]);
      step.positions.push_back(static_cast<int32_t>(sequence.num_computed + i));
    }
    if (wants_output) step.output_rows.push_back(static_cast<int32_t>(step.tokens.size()) - 1);
    step.parts.push_back({&sequence, num_tokens, wants_output});
    room -= num_tokens;
    output_room -= wants_output ? 1 : 0;
  };
  const auto left = [](const Sequence& sequence) {
    return static_cast<int64_t>(sequence.tokens.size()) - sequence.num_computed;
  };
  const auto has_room = [&] { return room > 0 && output_room > 0 && step.parts.size() < most_parts; };
  for (auto& sequence : running_) {
    if (whole_prompts_ && left(*sequence) > 1 && has_room() && left(*sequence) <= room) add(*sequence, left(*sequence));
  }
  for (auto& sequence : running_) {
    if (left(*sequence) == 1 && has_room()) add(*sequence, 1);
  }
  for (auto& sequence : running_) {
    if (!whole_prompts_ && left(*sequence) > 1 && has_room()) add(*sequence, std::min(left(*sequence), room));
  }
  return step;
}

Status Engine::run(Step& step) {
  for (const Step::Part& part : step.parts) {
    FL_TRY(cache_.extend(part.sequence->state, part.sequence->num_computed + part.num_tokens));
  }
  return executor_.run(
      {.tokens = step.tokens, .positions = step.positions, .output_rows = step.output_rows, .sequences = step.spans},
      cache_.views(step.states));
}

void Engine::commit(const Step& step) {
  const tensor::View logits = executor_.output("logits");
  size_t row = 0;
  for (const Step::Part& part : step.parts) {
    Sequence& sequence = *part.sequence;
    const auto prompt = static_cast<int64_t>(sequence.request.prompt.size());
    metrics_.prompt_tokens.add(
        static_cast<double>(std::clamp<int64_t>(prompt - sequence.num_computed, 0, part.num_tokens)));
    sequence.num_computed += part.num_tokens;
    if (!part.wants_output) continue;
    const float* first = logits.as<float>() + static_cast<int64_t>(row++) * vocab_size_;
    deliver_token(sequence, {first, static_cast<size_t>(vocab_size_)});
  }
}

void Engine::deliver_token(Sequence& sequence, std::span<const float> logits) {
  auto sampled = sequence.sampler.sample(logits, sequence.request.mask.get());
  if (!sampled.ok()) {
    finish(sequence, {.finish = FinishReason::kError, .error = std::move(sampled).status()});
    return;
  }
  TokenEvent event = std::move(*sampled);
  const int32_t token = *event.token;
  const auto& own = sequence.request.stop_token_ids;
  const auto& models = options_.stop_token_ids;
  const bool stops =
      std::find(own.begin(), own.end(), token) != own.end() ||
      (!sequence.request.ignore_model_stops && std::find(models.begin(), models.end(), token) != models.end());
  if (stops) {
    finish(sequence, {.finish = FinishReason::kStop, .stop_token = token, .error = {}});
    return;
  }
  sequence.sampler.accept(token);
  if (sequence.request.mask) sequence.request.mask->accept(token);
  sequence.tokens.push_back(token);
  metrics_.output_tokens.add();
  if (++sequence.num_output >= sequence.request.max_tokens) {
    event.finish = FinishReason::kLength;
    finish(sequence, std::move(event));
    return;
  }
  sequence.sink(event);
}

void Engine::finish(Sequence& sequence, TokenEvent event) {
  FL_CHECK(!sequence.finished);
  sequence.finished = true;
  metrics_.requests.add();
  if (sequence.state >= 0) cache_.remove_sequence(sequence.state);
  sequence.state = -1;
  sequence.sink(event);
}

void Engine::drop_finished() {
  std::erase_if(running_, [](const auto& sequence) { return sequence->finished; });
  const auto before = waiting_.size();
  std::erase_if(waiting_, [](const auto& sequence) { return sequence->finished; });
  num_waiting_ -= static_cast<int64_t>(before - waiting_.size());
}

void Engine::fail_step(const Step& step, const Status& status) {
  for (const Step::Part& part : step.parts) finish(*part.sequence, {.finish = FinishReason::kError, .error = status});
}

bool Engine::step() {
  take_inbox();
  admit();
  metrics_.waiting.set(static_cast<double>(waiting_.size()));
  metrics_.running.set(static_cast<double>(running_.size()));
  Step step = schedule();
  if (step.parts.empty()) return false;
  const auto start = std::chrono::steady_clock::now();
  if (const Status status = run(step); status.ok()) {
    commit(step);
  } else {
    fail_step(step, status);
  }
  drop_finished();
  metrics_.steps.add();
  metrics_.state_bytes.set(static_cast<double>(cache_.used_bytes()));
  metrics_.step_seconds.observe(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return true;
}

void Engine::run_until_idle() {
  while (step()) {
  }
}

void Engine::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (step()) continue;
    std::unique_lock lock(inbox_mutex_);
    inbox_filled_.wait(lock, stop, [&] { return !inbox_.empty() || !cancelled_.empty(); });
  }
  take_inbox();
  for (auto& sequence : running_) finish(*sequence, {.finish = FinishReason::kCancelled, .error = {}});
  for (auto& sequence : waiting_) finish(*sequence, {.finish = FinishReason::kCancelled, .error = {}});
  drop_finished();
}

}  // namespace firstlight::engine
