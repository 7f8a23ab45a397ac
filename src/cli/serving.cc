// SPDX-License-Identifier: Apache-2.0
#include "cli/serving.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>

#include "base/log.h"
#include "base/metrics.h"
#include "cli/chat_formats.h"
#include "cli/context.h"
#include "server/engine_generator.h"
#include "server/readiness_keeper.h"
#include "text/chat_renderer.h"

namespace firstlight::cli {
namespace {

std::atomic<server::Server*> running_server{nullptr};  // for the signal handler alone

void stop_on_signal(int) {
  if (server::Server* server = running_server.load()) server->stop();
}

// What clients call the model: the last part of its path, whatever slashes end it.
std::string model_name(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  const std::filesystem::path last = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  return last.empty() || last == "." ? "model" : last.string();
}

// What the readiness hangs on. Makes the golden first if there is none.
class GoldenCheck {
 public:
  GoldenCheck(Session& session, std::optional<gates::Golden> golden, server::EngineGenerator& generator,
              server::Readiness& readiness)
      : session_(session), golden_(std::move(golden)), generator_(generator), readiness_(readiness) {
    if (golden_) golden_->routed = gates::has_experts(session.loaded->model.graph);
  }

  Status operator()() {
    if (!golden_) FL_TRY(make());
    if (readiness_.num_faults() == 0) readiness_.set_not_ready("the golden prompt is being reproduced");
    auto check = reproduce();
    if (check.ok() && !check->passed && golden_->routed && golden_->own && golden_->prompts[0].rounded.empty()) {
      FL_TRY(add_rounded());  // where a choice of experts lies within rounding it may fall otherwise
      check = reproduce();
    }
    // And then what follows is another text's: a fault shows in any text, a choice on the edge in few.
    for (int turn = 1; turn <= 2 && check.ok() && !check->passed && golden_->routed && golden_->own; ++turn) {
      FL_TRY(make(turn));
      check = reproduce();
    }
    if (!check.ok()) return check.status();
    if (check->passed) return ok_status();
    return internal_error("the golden prompt is not reproduced (position " + std::to_string(check->first_wrong) +
                          ", relative error " + std::to_string(check->worst_rel_l2) + ")");
  }
  // The reference computes: nothing can interrupt it, and with a large model it takes minutes.
  bool is_making() const { return making_.load(); }

 private:
  Result<gates::GoldenCheck> reproduce() {
    Result<gates::GoldenCheck> check = unavailable("the engine has stopped");
    generator_.run_between_steps([&] { check = gates::reproduce(*session_.loaded->executor, *golden_); });
    return check;
  }

  // `turn`: so many times five tokens go from the front of the prompt to its end.
  Status make(int turn = 0) {
    making_ = true;
    readiness_.set_not_ready("the reference backend is computing the golden prompt");
    std::vector<int32_t> prompt = gates::default_golden_prompt(session_.text, generator_.vocab_size());
    for (int i = 0; i < 5 * turn; ++i) std::rotate(prompt.begin(), prompt.begin() + 1, prompt.end());
    auto made = gates::make_golden(*session_.loaded, {}, prompt, 4);
    making_ = false;
    if (!made.ok()) return Status(made.status().code(), "no golden prompt: " + made.status().message());
    golden_ = std::move(*made);
    return ok_status();
  }

  Status add_rounded() {
    making_ = true;
    Status added = gates::add_rounded(*golden_, *session_.loaded, session_.options);
    making_ = false;
    return std::move(added).with_context("no rounded golden prompt");
  }

  Session& session_;
  std::optional<gates::Golden> golden_;
  server::EngineGenerator& generator_;
  server::Readiness& readiness_;
  std::atomic<bool> making_{false};
};

// What the plan holds in memory whatever requests come.
void set_memory_gauges(const runtime::MemoryUse& memory, Metrics& metrics) {
  const auto set = [&](const char* kind, int64_t bytes) {
    metrics.gauge("firstlight_memory_bytes", "bytes that the loaded model holds, by kind", {{"kind", kind}})
        .set(static_cast<double>(bytes));
  };
  set("weights_mapped", memory.mapped_bytes);
  set("weights", memory.resident_bytes);
  set("arena", memory.arena_bytes);
  set("workspace", memory.workspace_bytes);
}

}  // namespace

Result<int> serve(Session& session, const ServingOptions& options, std::optional<gates::Golden> golden) {
  const Log log = FL_TRY(Log::open({.json = options.log_json}));
  Metrics metrics;
  server::Readiness readiness;
  const ContextChoice context =
      FL_TRY(choose_context(*session.loaded, {.context = options.context,
                                              .state_bytes = options.engine.state_capacity_bytes,
                                              .swap_bytes = options.engine.swap.host_bytes,
                                              .step_tokens = options.engine.step_tokens}));
  if (!context.note.empty()) log_warn(&log, context.note);
  log_info(&log,
           "context " + std::to_string(context.context) + ", the longest that fits " + std::to_string(context.largest));
  const int64_t max_sequences = options.engine.max_sequences;
  if (max_sequences < 1 || max_sequences > session.loaded->executor->max_batch_outputs()) {
    return invalid_argument("--max-sequences " + std::to_string(max_sequences) + ": 1 to " +
                            std::to_string(session.loaded->executor->max_batch_outputs()) + " wanted");
  }
  engine::EngineOptions engine_options = options.engine;
  engine_options.max_context = context.context;
  engine_options.visible_tokens = session.visible_tokens;
  engine_options.stop_token_ids = adapt::stop_token_ids(session.loaded->model.tokens, session.text);
  engine_options.state_capacity_bytes = context.state_bytes;
  const auto engine = FL_TRY(engine::Engine::create(
      *session.loaded->executor, engine_options, engine::EngineMetrics::in(metrics), session.loaded->predictor.get()));
  server::EngineGenerator generator(*engine, readiness, &log);
  std::optional<server::ServedEmbeddings> embeddings = options.embeddings;
  if (embeddings) embeddings->width = engine->hidden_width();
  const text::Tokenizer tokenizer = FL_TRY(session.text.require_tokenizer());
  text::ChatFormat chat_format = FL_TRY(choose_chat_format(session.text, options.chat_format));
  log_info(&log, "chat format: " + (chat_format.name.empty() ? "none, answers are text" : chat_format.name));
  const server::ServedModel model{
      .name = model_name(options.name),
      .generator = &generator,
      .tokenizer = tokenizer,
      .chat_template = session.text.chat_template.get(),
      .tool_template = session.text.tool_chat_template.get(),
      .special_tokens = session.text.special_tokens,
      .chat_profile = server::make_chat_profile(std::move(chat_format), tokenizer),
      .context = context.context,
      .max_context = context.largest,
      .created_unix_s = static_cast<int64_t>(std::time(nullptr)),
      .embeddings = embeddings,
  };
  set_memory_gauges(session.loaded->executor->memory(), metrics);
  server::ServerOptions server_options = options.server;
  server_options.max_waiting = options.engine.max_waiting;
  server::Server server(model, server_options, readiness, &metrics, &log);
  FL_TRY(server.start());
  running_server = &server;
  std::signal(SIGINT, stop_on_signal);
  std::signal(SIGTERM, stop_on_signal);
  for (const auto& [id, source] : session.loaded->model.tokens.eos) {
    log_info(&log, "answers end at token " + std::to_string(id) + " (" + source + ")");
  }
  log_info(&log, "serving " + model.name + " on http://" + options.server.host + ":" + std::to_string(server.port()));
  GoldenCheck check(session, std::move(golden), generator, readiness);
  const server::ReadinessKeeper keeper(readiness, std::ref(check), {}, &metrics, &log);
  server.run();
  running_server = nullptr;
  if (check.is_making()) {
    log_info(&log, "ended while the reference backend computed the golden prompt");
    std::_Exit(0);
  }
  return 0;
}

}  // namespace firstlight::cli
