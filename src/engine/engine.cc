// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "plan/look_ahead.h"

namespace firstlight::engine {

using request::FinishReason;
using request::TokenEvent;

EngineMetrics EngineMetrics::in(Metrics& metrics) {
  EngineMetrics handles;
  handles.prompt_tokens = metrics.counter("firstlight_prompt_tokens_total", "prompt tokens computed");
  handles.queried_tokens = metrics.counter("firstlight_prefix_cache_query_tokens_total",
                                           "prompt tokens of requests that looked for computed beginnings");
  handles.cached_tokens =
      metrics.counter("firstlight_prefix_cache_hit_tokens_total", "of these, tokens that were computed before");
  handles.drafted_tokens = metrics.counter("firstlight_draft_tokens_total", "tokens guessed ahead");
  handles.accepted_tokens =
      metrics.counter("firstlight_draft_tokens_accepted_total", "of these, tokens that the model chose as well");
  handles.output_tokens = metrics.counter("firstlight_output_tokens_total", "tokens generated");
  for (size_t i = 1; i < handles.requests.size(); ++i) {
    handles.requests[i] =
        metrics.counter("firstlight_requests_total", "requests the engine has ended, by the reason",
                        {{"reason", std::string(request::finish_reason_name(static_cast<FinishReason>(i)))}});
  }
  const auto preemptions = [&](const char* kind) {
    return metrics.counter("firstlight_preemptions_total",
                           "sequences put out of their place, by what becomes of their state", {{"kind", kind}});
  };
  handles.swapped_out = preemptions("swap");
  handles.recomputed = preemptions("recompute");
  handles.waiting = metrics.gauge("firstlight_requests_waiting", "requests that wait for a place");
  handles.running = metrics.gauge("firstlight_requests_running", "requests that are being computed");
  handles.state_bytes = metrics.gauge("firstlight_state_bytes", "bytes of sequence state (KV cache) in use");
  handles.reusable_bytes = metrics.gauge("firstlight_state_reusable_bytes",
                                         "of these, bytes that no request uses and that go when room is wanted");
  handles.capacity_bytes =
      metrics.gauge("firstlight_state_capacity_bytes", "bytes that sequence state may take; 0: no limit of its own");
  const auto swap = [&](const char* kind) {
    return metrics.gauge("firstlight_swap_bytes", "bytes of swap space in use", {{"kind", kind}});
  };
  handles.swap_host_bytes = swap("memory");
  handles.swap_disk_bytes = swap("disk");
  const std::array<const char*, 3> kinds = {"prefill", "decode", "mixed"};
  for (size_t i = 0; i < kinds.size(); ++i) {
    handles.step_seconds[i] =
        metrics.histogram("firstlight_step_seconds", "time of one engine step, by what it computes",
                          {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5}, {{"kind", kinds[i]}});
  }
  handles.step_tokens = metrics.histogram("firstlight_step_tokens", "tokens that one step computes",
                                          {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096});
  handles.step_sequences = metrics.histogram("firstlight_step_sequences", "sequences in one step (the batch)",
                                             {1, 2, 4, 8, 16, 32, 64, 128, 256});
  handles.queue_seconds =
      metrics.histogram("firstlight_queue_wait_seconds", "from a request's submission to its place in the batch",
                        {0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300});
  return handles;
}

namespace {

int64_t width_of(const plan::Plan& plan, std::string_view output) {
  for (const auto& one : plan.outputs) {
    if (one.name == output) return plan.buffer(one.buffer).type.shape.back().factor;
  }
  return 0;
}

Status check_predictor(const plan::Plan& model, const plan::Plan& head) {
  for (const char* output : {"hidden", "logits"}) {
    const int64_t own = width_of(model, output), predicted = width_of(head, output);
    if (own > 0 && own == predicted) continue;
    return invalid_argument("a head that predicts with '" + std::string(output) + "' of width " +
                            std::to_string(predicted) + ", the model's is " + std::to_string(own));
  }
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(runtime::Executor& executor, const EngineOptions& wanted,
                                               EngineMetrics metrics, runtime::Executor* predictor) {
  EngineOptions options = wanted;
  if (options.draft_tokens > 0 && plan::sees_later_tokens(executor.plan())) {
    return unsupported(
        "drafts: the model's attention sees later tokens, so that a guessed one would change those before");
  }
  const int64_t most = executor.max_batch_tokens();
  options.step_tokens = options.step_tokens > 0 ? std::min(options.step_tokens, most) : most;
  std::vector<ops::StateDecl> states = executor.plan().states;
  if (predictor != nullptr) {
    FL_TRY(check_predictor(executor.plan(), predictor->plan()));
    states.insert(states.end(), predictor->plan().states.begin(), predictor->plan().states.end());
  }
  auto cache = FL_TRY(kv::StateCache::create(states, {.page_rows = options.page_rows,
                                                      .capacity_bytes = options.state_capacity_bytes,
                                                      .storage = executor.page_storage(),
                                                      .step_tokens = options.step_tokens}));
  std::unique_ptr<kv::SwapSpace> swap;
  if (options.swap.host_bytes > 0 || options.swap.disk_bytes > 0) swap = FL_TRY(kv::SwapSpace::create(options.swap));
  std::unique_ptr<Engine> engine(new Engine(executor, options, metrics, std::move(cache), std::move(swap)));
  if (predictor != nullptr) {
    engine->predictor_ = std::make_unique<Predictor>(*predictor, executor.plan().states.size());
  }
  return engine;
}

Engine::Engine(runtime::Executor& executor, const EngineOptions& options, EngineMetrics metrics, kv::StateCache cache,
               std::unique_ptr<kv::SwapSpace> swap)
    : executor_(executor),
      options_(options),
      metrics_(metrics),
      cache_(std::move(cache)),
      swap_(std::move(swap)),
      num_own_states_(executor.plan().states.size()),
      whole_prompts_(plan::sees_later_tokens(executor.plan())),
      waiting_(options.aging_seconds),
      step_(std::make_unique<Step>()) {
  // A prompt that saw all of itself can neither be gone on from in the middle nor be computed again with its output.
  if (whole_prompts_) options_.admission = Admission::kReserved;
  if (options_.reuse_prefixes && !whole_prompts_) {
    prefixes_ = std::make_unique<kv::PrefixCache>(cache_, options_.snapshot_bytes);
  }
  if (options_.overlap) runner_ = std::make_unique<StepRunner>();
  metrics_.capacity_bytes.set(static_cast<double>(options_.state_capacity_bytes));
  vocab_size_ = width_of(executor.plan(), "logits");
  hidden_width_ = width_of(executor.plan(), "hidden");
  has_logits_ = vocab_size_ > 0;
  const ops::Attribute* vocabulary = executor.plan().metadata.find("vocabulary");
  if (!has_logits_ && vocabulary != nullptr) vocab_size_ = std::get<int64_t>(*vocabulary);
}

Engine::~Engine() = default;

Status Engine::check(const request::Request& request) const {
  const auto check_ids = [&](const std::vector<int32_t>& ids, const char* what) -> Status {
    for (const int32_t token : ids) {
      if (token >= 0 && token < vocab_size_) continue;
      return invalid_argument(std::string(what) + " token " + std::to_string(token) + ", an id below " +
                              std::to_string(vocab_size_) + " wanted");
    }
    return ok_status();
  };
  if (request.prompt.empty()) return invalid_argument("the prompt has no tokens, at least one wanted");
  FL_TRY(check_ids(request.prompt, "prompt"));
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  if (request.embed) return check_embedding(prompt_tokens);
  if (!has_logits_) return unsupported("the model has no output head: it gives embeddings alone");
  const int64_t longest = options_.max_context - (request.max_tokens == 0 ? 0 : 1);
  if (prompt_tokens > longest) {
    return invalid_argument("the prompt has " + std::to_string(prompt_tokens) + " tokens, at most " +
                            std::to_string(longest) + " fit a context of " + std::to_string(options_.max_context));
  }
  if (request.score_prompt && whole_prompts_) {
    return unsupported("log-probabilities of a prompt: the model's attention sees the tokens it would predict");
  }
  if (whole_prompts_ && prompt_tokens > options_.step_tokens) {
    return invalid_argument("the prompt has " + std::to_string(prompt_tokens) + " tokens, at most " +
                            std::to_string(options_.step_tokens) +
                            " fit a step, and attention that sees later tokens wants all of them in one");
  }
  if (request.max_tokens < 0) {
    return invalid_argument("max_tokens is " + std::to_string(request.max_tokens) + ", 0 or more wanted");
  }
  FL_TRY(check_ids(request.stop_token_ids, "stop"));
  return request::check(request.sampling, vocab_size_);
}

Status Engine::check_embedding(int64_t num_tokens) const {
  if (hidden_width_ == 0) return unsupported("the model was loaded without embeddings");
  const int64_t most = whole_prompts_ ? std::min(options_.step_tokens, options_.max_context) : options_.max_context;
  if (num_tokens <= most) return ok_status();
  return invalid_argument("the text has " + std::to_string(num_tokens) + " tokens, at most " + std::to_string(most) +
                          " give an embedding");
}

Result<Ticket> Engine::submit(request::Request request, EventSink sink) {
  FL_TRY(check(request));
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  request.max_tokens = request.embed ? 0 : std::min(request.max_tokens, options_.max_context - prompt_tokens);
  const int64_t planned_length = prompt_tokens + request.max_tokens;
  if (request.mask) {
    std::vector<int32_t> stops = request.stop_token_ids;
    if (!request.ignore_model_stops) {
      stops.insert(stops.end(), options_.stop_token_ids.begin(), options_.stop_token_ids.end());
    }
    request.mask->set_stop_tokens(stops);
  }
  const int64_t needed = cache_.bytes_for_length(planned_length);
  if (options_.state_capacity_bytes > 0 && needed > options_.state_capacity_bytes) {
    return out_of_memory("state for " + std::to_string(planned_length) + " tokens: " + std::to_string(needed) +
                         " bytes needed, " + std::to_string(options_.state_capacity_bytes) + " available");
  }
  auto sequence = std::make_unique<Sequence>(Sequence{.request = std::move(request),
                                                      .sink = std::move(sink),
                                                      .sampler = Sampler({}, {}),
                                                      .submitted = Clock::now(),
                                                      .planned_length = planned_length,
                                                      .tokens = {},
                                                      .saved = {}});
  sequence->sampler = Sampler(sequence->request.sampling, sequence->request.prompt);
  sequence->tokens = sequence->request.prompt;
  sequence->num_scored = sequence->request.score_prompt ? 1 : prompt_tokens;  // of the first nobody can tell
  sequence->shares_with = plan::length_class(executor_.plan(), planned_length) + '\n' + sequence->request.cache_salt;
  if (sequence->request.embed) sequence->pooler = request::Pooler(*sequence->request.embed);
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

void Engine::call(std::function<void()> work) {
  const std::scoped_lock lock(inbox_mutex_);
  calls_.push_back(std::move(work));
  inbox_filled_.notify_one();
}

void Engine::take_inbox() {
  std::vector<Ticket> cancelled;
  std::vector<std::function<void()>> calls;
  {
    const std::scoped_lock lock(inbox_mutex_);
    for (auto& sequence : inbox_) waiting_.push(std::move(sequence));
    inbox_.clear();
    cancelled.swap(cancelled_);
    calls.swap(calls_);
  }
  for (const auto& call : calls) call();
  const auto cancel = [&](Sequence& sequence) {
    if (sequence.finished || std::find(cancelled.begin(), cancelled.end(), sequence.ticket) == cancelled.end()) return;
    finish(sequence, {.finish = FinishReason::kCancelled, .error = {}});
  };
  for (const auto& sequence : waiting_.all()) cancel(*sequence);
  for (const auto& sequence : running_) cancel(*sequence);
  drop_finished();
}

Status Engine::run(Step& step) {
  return executor_.run(
      {.tokens = step.tokens, .positions = step.positions, .output_rows = step.output_rows, .sequences = step.spans},
      cache_.views(step.states).first(num_own_states_));
}

void Engine::commit(const Step& step) {
  const tensor::View logits = has_logits_ ? executor_.output("logits") : tensor::View{};
  int64_t row = 0;
  for (size_t i = 0; i < step.parts.size(); ++i) {
    const Step::Part& part = step.parts[i];
    Sequence& sequence = *part.sequence;
    const int64_t before = sequence.num_computed;
    sequence.num_computed += part.num_tokens - static_cast<int64_t>(sequence.draft.size());
    const int64_t prompt = sequence.prompt_length();
    if (const int64_t fresh = std::min(sequence.num_computed, prompt) - sequence.num_charged; fresh > 0) {
      sequence.num_charged += fresh;
      metrics_.prompt_tokens.add(static_cast<double>(fresh));
      waiting_.charge_prompt(sequence.request.client, fresh);
    }
    publish(sequence);
    if (sequence.request.embed) pool(step.spans[i], sequence);
    const bool drafted = !sequence.draft.empty();
    if (!drafted) keep_hidden(sequence, step.spans[i].first_row, part.num_tokens);
    if (part.num_rows() == 0) continue;
    const float* rows = logits.as<float>() + row * vocab_size_;
    row += part.num_rows() + static_cast<int64_t>(sequence.draft.size());
    if (!take_prompt_scores(sequence, part.num_scored, rows) || !part.wants_output) continue;
    rows += part.num_scored * vocab_size_;
    const auto twins = before < prompt ? give_prompt_to_twins(sequence) : std::vector<Sequence*>();
    deliver_rows(sequence, rows);
    if (drafted) keep_hidden(sequence, step.spans[i].first_row, sequence.num_computed - before);
    for (Sequence* twin : twins) deliver_token(*twin, {rows, static_cast<size_t>(vocab_size_)});
  }
}

void Engine::pool(const plan::SequenceSpan& span, Sequence& sequence) {
  const tensor::View hidden = executor_.output("hidden");
  const auto width = static_cast<size_t>(hidden_width_);
  for (int64_t i = 0; i < span.num_tokens; ++i) {
    sequence.pooler.add(span.start_position + i, {hidden.as<float>() + (span.first_row + i) * hidden_width_, width});
  }
  if (sequence.left() > 0) return;
  finish(sequence, {.finish = FinishReason::kStop, .embedding = sequence.pooler.result(), .error = {}});
}

// New whole blocks become known, once a predictor has seen them too. A fixed state has gone on with the draft, which
// may be wrong: the next step's will do.
void Engine::publish(Sequence& sequence) {
  const int64_t block = cache_.block_tokens();
  const int64_t ready = predictor_ ? sequence.num_followed : sequence.num_computed;
  if (!prefixes_ || sequence.num_published / block >= ready / block) return;
  if (sequence.before_draft || (cache_.has_fixed_states() && ready != sequence.num_computed)) return;
  sequence.num_published = ready;
  prefixes_->publish(sequence.state, sequence.shares_with,
                     std::span(sequence.tokens).first(static_cast<size_t>(ready)));
}

void Engine::deliver_token(Sequence& sequence, std::span<const float> logits) {
  if (sequence.request.max_tokens == 0) {
    finish(sequence, {.finish = FinishReason::kLength, .error = {}});
    return;
  }
  auto sampled = sequence.sampler.sample(logits, sequence.request.mask.get());
  if (!sampled.ok()) {
    if (const Status sound = check_logits(logits); !sound.ok()) tell_fault(sound);
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
  request::TokenMask* mask = sequence.request.mask.get();
  if (mask != nullptr) mask->accept(token);
  sequence.tokens.push_back(token);
  metrics_.output_tokens.add();
  waiting_.charge_output(sequence.request.client, 1);
  const bool is_over = mask != nullptr && mask->is_over();
  if (++sequence.num_output >= sequence.request.max_tokens || is_over) {
    event.finish = is_over ? FinishReason::kStop : FinishReason::kLength;
    finish(sequence, std::move(event));
    return;
  }
  emit(sequence, std::move(event));
}

// Delivers it at once, or while the next step runs.
void Engine::emit(Sequence& sequence, TokenEvent event) {
  event.cached_tokens = sequence.num_cached;
  event.admitted_ns = sequence.admitted_ns;
  event.prompt_scores = std::exchange(sequence.prompt_scores, {});
  event.drafted_tokens = sequence.num_drafted;
  event.accepted_tokens = sequence.num_accepted;
  if (options_.visible_tokens > 0) {
    event.evicted_tokens = std::max<int64_t>(0, sequence.length() - options_.visible_tokens);
  }
  if (!runner_) {
    sequence.sink(event);
    return;
  }
  events_.emplace_back(sequence.sink, std::move(event));
}

void Engine::deliver_events() {
  for (const auto& [sink, event] : std::exchange(events_, {})) sink(event);
}

void Engine::finish(Sequence& sequence, TokenEvent event) {
  FL_CHECK(!sequence.finished);
  sequence.finished = true;
  metrics_.requests[static_cast<size_t>(event.finish)].add();
  release_state(sequence);
  if (sequence.saved) kv::StateCache::drop_saved(*sequence.saved, *swap_);
  sequence.saved.reset();
  blocked_ = nullptr;
  emit(sequence, std::move(event));
}

void Engine::drop_finished() {
  std::erase_if(running_, [](const auto& sequence) { return sequence->finished; });
  const size_t before = waiting_.all().size();
  waiting_.drop_finished();
  num_waiting_ -= static_cast<int64_t>(before - waiting_.all().size());
}

void Engine::tell_fault(const Status& status) const {
  if (on_fault_) on_fault_(status);
}

void Engine::fail_step(const Step& step, const Status& status) {
  tell_fault(status);
  for (const Step::Part& part : step.parts) finish(*part.sequence, {.finish = FinishReason::kError, .error = status});
}

void Engine::set_gauges() {
  metrics_.waiting.set(static_cast<double>(waiting_.all().size()));
  metrics_.running.set(static_cast<double>(running_.size()));
  metrics_.state_bytes.set(static_cast<double>(cache_.used_bytes()));
  metrics_.reusable_bytes.set(prefixes_ ? static_cast<double>(prefixes_->reclaimable_bytes()) : 0);
  if (!swap_) return;
  metrics_.swap_host_bytes.set(static_cast<double>(swap_->host_used_bytes()));
  metrics_.swap_disk_bytes.set(static_cast<double>(swap_->disk_used_bytes()));
}

void Engine::observe(const Step& step, Clock::time_point start) {
  metrics_.step_seconds[static_cast<size_t>(step.kind)].observe(
      std::chrono::duration<double>(Clock::now() - start).count());
  metrics_.step_tokens.observe(static_cast<double>(step.tokens.size()));
  metrics_.step_sequences.observe(static_cast<double>(step.parts.size()));
}

bool Engine::step() {
  take_inbox();
  admit();
  Step& step = *step_;
  schedule(step);
  drop_finished();
  set_gauges();
  if (step.parts.empty()) {
    const bool had_events = !events_.empty();
    deliver_events();
    return had_events;
  }
  const auto start = Clock::now();
  Status status;
  if (runner_) {
    runner_->start([&] { return run(step); });
    deliver_events();
    status = runner_->wait();
  } else {
    status = run(step);
  }
  if (status.ok()) {
    commit(step);
    if (predictor_) predict();
  } else {
    fail_step(step, status);
  }
  observe(step, start);
  drop_finished();
  set_gauges();
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
    inbox_filled_.wait(lock, stop, [&] { return !inbox_.empty() || !cancelled_.empty() || !calls_.empty(); });
  }
  take_inbox();
  for (const auto& sequence : running_) finish(*sequence, {.finish = FinishReason::kCancelled, .error = {}});
  for (const auto& sequence : waiting_.all()) finish(*sequence, {.finish = FinishReason::kCancelled, .error = {}});
  drop_finished();
  deliver_events();
}

}  // namespace firstlight::engine
