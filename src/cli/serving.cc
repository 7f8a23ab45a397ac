// SPDX-License-Identifier: Apache-2.0
#include "cli/serving.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <thread>

#include "base/log.h"
#include "base/metrics.h"
#include "device/cpu/detect.h"
#include "server/engine_generator.h"
#include "server/server.h"
#include "text/chat_template.h"

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

// Makes the golden if there is none, and sets the readiness by whether it is reproduced.
void check_golden(Session& session, std::optional<gates::Golden> golden, int64_t vocab, server::Readiness& readiness,
                  const Log& log) {
  if (!golden) {
    readiness.set_not_ready("the reference backend is computing the golden prompt");
    auto made = gates::make_golden(*session.loaded, {}, gates::default_golden_prompt(session.text, vocab), 4);
    if (!made.ok()) {
      readiness.set_not_ready("no golden prompt: " + made.status().message());
      log_error(&log, "no golden prompt: " + made.status().message());
      return;
    }
    golden = std::move(*made);
  }
  readiness.set_not_ready("the golden prompt is being reproduced");
  const auto check = gates::reproduce(*session.loaded->executor, *golden);
  if (check.ok() && check->passed) {
    readiness.set_ready();
    log_info(&log, "ready: the golden prompt is reproduced");
    return;
  }
  const std::string why = check.ok()
                              ? "the golden prompt is not reproduced (position " + std::to_string(check->first_wrong) +
                                    ", relative error " + std::to_string(check->worst_rel_l2) + ")"
                              : check.status().message();
  readiness.set_not_ready(why);
  log_error(&log, "never ready: " + why);
}

}  // namespace

Result<int> serve(Session& session, const ServingOptions& options, std::optional<gates::Golden> golden) {
  const Log log = FL_TRY(Log::open({}));
  Metrics metrics;
  server::Readiness readiness;
  const target::CpuTarget cpu = device::detect_cpu();
  const int64_t context = options.context > 0 ? options.context : session.loaded->context();
  if (session.loaded->model.max_positions && context > *session.loaded->model.max_positions) {
    return invalid_argument("--context " + std::to_string(context) + ": the model knows " +
                            std::to_string(*session.loaded->model.max_positions) + " positions");
  }
  const int64_t max_sequences = options.engine.max_sequences;
  if (max_sequences < 1 || max_sequences > session.loaded->executor->max_batch_outputs()) {
    return invalid_argument("--max-sequences " + std::to_string(max_sequences) + ": 1 to " +
                            std::to_string(session.loaded->executor->max_batch_outputs()) + " wanted");
  }
  engine::EngineOptions engine_options = options.engine;
  engine_options.max_context = context;
  engine_options.stop_token_ids = adapt::stop_token_ids(session.loaded->model.tokens, session.text);
  if (engine_options.state_capacity_bytes == 0) {
    engine_options.state_capacity_bytes = cpu.available_bytes - cpu.memory_bytes / 5;
  }
  const auto engine =
      FL_TRY(engine::Engine::create(*session.loaded->executor, engine_options, engine::EngineMetrics::in(metrics)));
  server::EngineGenerator generator(*engine, readiness, &log);
  const server::ServedModel model{
      .name = model_name(options.name),
      .generator = &generator,
      .tokenizer = FL_TRY(session.text.require_tokenizer()),
      .chat_template = session.text.chat_template.get(),
      .tool_template = session.text.tool_chat_template.get(),
      .special_tokens = session.text.special_tokens,
      .context = context,
      .created_unix_s = static_cast<int64_t>(std::time(nullptr)),
  };
  server::Server server(model, {.host = options.host, .port = options.port, .api_key = options.api_key}, readiness,
                        &metrics, &log);
  FL_TRY(server.start());
  running_server = &server;
  std::signal(SIGINT, stop_on_signal);
  std::signal(SIGTERM, stop_on_signal);
  for (const auto& [id, source] : session.loaded->model.tokens.eos) {
    log_info(&log, "answers end at token " + std::to_string(id) + " (" + source + ")");
  }
  log_info(&log, "serving " + model.name + " on http://" + options.host + ":" + std::to_string(server.port()));
  std::thread checker([&] { check_golden(session, std::move(golden), engine->vocab_size(), readiness, log); });
  server.run();
  running_server = nullptr;
  checker.join();
  return 0;
}

}  // namespace firstlight::cli
