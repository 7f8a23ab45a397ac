// SPDX-License-Identifier: Apache-2.0
#include "cli/generation.h"

#include <chrono>
#include <cstdio>

#include "base/json.h"
#include "cli/context.h"
#include "text/chat_renderer.h"

namespace firstlight::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Turns token events into text and times.
class Listener {
 public:
  Listener(const adapt::TextAssets& assets, server::Choice::Options choice, const ShowPiece& show,
           GenerationResult& result)
      : show_(show), result_(result) {
    if (assets.tokenizer) choice_.emplace(*assets.tokenizer, std::move(choice));
  }

  // False when a stop string has ended the text, or nobody reads it any more.
  bool hear(const request::TokenEvent& event) {
    // An end without a token of its own (a stop token, a cancel) is no token's time.
    if (event.token || result_.events.empty()) last_ = Clock::now();
    if (result_.events.empty()) first_ = last_;
    result_.events.push_back(event);
    if (event.token) result_.tokens.push_back(*event.token);
    if (choice_ && choice_->is_done()) return false;
    result_.finish_reason = request::finish_reason_name(event.finish);
    const bool is_broken =
        event.finish == request::FinishReason::kCancelled || event.finish == request::FinishReason::kError;
    if (!choice_ || is_broken) return true;
    const server::ChoicePiece piece = choice_->push(event);
    result_.text += piece.text;
    result_.reasoning += piece.reasoning;
    const bool is_read = !show_ || (piece.text.empty() && piece.reasoning.empty()) || show_(piece);
    result_.finish_reason = request::finish_reason_name(piece.finish);
    return is_read && !choice_->is_done();
  }

  Clock::time_point first() const { return first_; }
  Clock::time_point last() const { return last_; }

 private:
  std::optional<server::Choice> choice_;
  const ShowPiece& show_;
  GenerationResult& result_;
  Clock::time_point first_{}, last_{};
};

}  // namespace

Result<GenerationResult> generate(Session& session, request::Request request,
                                  const std::vector<std::string>& stop_strings, const ShowPiece& show,
                                  const GenerationOptions& options) {
  const ContextChoice choice = FL_TRY(choose_context(*session.loaded, {.context = options.context}));
  if (!choice.note.empty()) std::fprintf(stderr, "note: %s\n", choice.note.c_str());
  Metrics metrics;
  const engine::EngineMetrics counts = engine::EngineMetrics::in(metrics);
  auto engine = FL_TRY(
      engine::Engine::create(*session.loaded->executor,
                             {.max_context = choice.context,
                              .state_capacity_bytes = choice.state_bytes,
                              .visible_tokens = session.visible_tokens,
                              .stop_token_ids = adapt::stop_token_ids(session.loaded->model.tokens, session.text),
                              .draft_tokens = options.draft_tokens},
                             counts, session.loaded->predictor.get()));
  GenerationResult result;
  result.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  Listener listener(session.text, {.stops = stop_strings, .reading = options.reading}, show, result);
  Status error;
  engine::Ticket ticket = 0;
  const auto start = Clock::now();
  ticket = FL_TRY(engine->submit(std::move(request), [&](const request::TokenEvent& event) {
    if (event.finish == request::FinishReason::kError) error = event.error;
    if (!listener.hear(event) && event.finish == request::FinishReason::kNone) engine->cancel(ticket);
  }));
  engine->run_until_idle();
  FL_TRY(std::move(error));
  result.ttft_s = seconds_between(start, listener.first());
  result.prompt_tps = static_cast<double>(result.prompt_tokens) / result.ttft_s;
  result.drafted_tokens = static_cast<int64_t>(counts.drafted_tokens.value());
  result.accepted_tokens = static_cast<int64_t>(counts.accepted_tokens.value());
  const double decode_s = seconds_between(listener.first(), listener.last());
  if (result.tokens.size() > 1 && decode_s > 0) {
    result.decode_tps = static_cast<double>(result.tokens.size() - 1) / decode_s;
  }
  return result;
}

Result<std::vector<int32_t>> encode_prompt(const adapt::TextAssets& assets, const PromptText& prompt,
                                           std::string* trusted_end) {
  const text::Tokenizer tokenizer = FL_TRY(assets.require_tokenizer());
  if (prompt.raw || !assets.chat_template) {
    if (!prompt.raw)
      std::fprintf(stderr, "note: no chat template (%s); the prompt goes in as it is\n",
                   assets.chat_template_error.c_str());
    return tokenizer.encode(prompt.system + prompt.user);
  }
  text::ChatContext context;
  if (!prompt.system.empty()) context.messages.push_back({{"role", "system"}, {"content", prompt.system}});
  context.messages.push_back({{"role", "user"}, {"content", prompt.user}});
  context.special_tokens = assets.special_tokens;
  if (!prompt.variables.empty()) {
    context.variables = FL_TRY(parse_json(prompt.variables).with_context("--chat-variables"));
  }
  const auto rendered = FL_TRY(assets.chat_template->render(context));
  if (trusted_end != nullptr) *trusted_end = rendered.trusted_end();
  return tokenizer.encode_segments(rendered.segments);
}

}  // namespace firstlight::cli
