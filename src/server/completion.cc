// SPDX-License-Identifier: Apache-2.0
#include "server/completion.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/trace.h"
#include "server/field_reader.h"

namespace firstlight::server {

using request::FinishReason;

uint64_t choice_seed(uint64_t seed, int64_t i) {
  if (i == 0) return seed;
  uint64_t mixed = seed + 0x9E3779B97F4A7C15u * static_cast<uint64_t>(i);  // splitmix64
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

void Completion::start(const ApiRequest& request, std::vector<PreparedPrompt> prompts) {
  if (over_) return;  // gone, or out of time, while the prompt was prepared: nothing starts
  record_.client = request.client;
  record_.streamed = request.stream;
  record_.submitted_ns = now_ns();
  if (request.timeout_s > 0) {
    timeout_s_ = request.timeout_s;
    exchange_->expire_after(timeout_s_ - static_cast<double>(record_.submitted_ns - record_.arrived_ns) / 1e9);
  }
  streams_ = request.stream;
  choices_per_prompt_ = request.num_choices;
  head_ = {.chat = request.endpoint == Endpoint::kChat,
           .id = make_answer_id(request.endpoint == Endpoint::kChat),
           .model = context_->model.name,
           .created_unix_s = static_cast<int64_t>(std::time(nullptr)),
           .logprobs = request.logprobs,
           .include_usage = request.include_usage};
  if (!prompts.empty() && prompts.front().constraint) {
    mask_field_ = request.constraint_field.empty() ? "tools" : request.constraint_field;
  }
  parts_.reserve(prompts.size() * static_cast<size_t>(request.num_choices));
  for (const PreparedPrompt& prompt : prompts) {
    num_prompt_tokens_ += static_cast<int64_t>(prompt.ids.size());
    for (int64_t i = 0; i < request.num_choices; ++i) {
      if (const Status sent = send_choice(request, prompt, i); !sent.ok()) {
        refuse(sent);
        return;
      }
    }
  }
}

Status Completion::send_choice(const ApiRequest& request, const PreparedPrompt& prompt, int64_t choice_of_prompt) {
  const size_t part_idx = parts_.size();
  request::Request one;
  one.id = head_.id + "-" + std::to_string(part_idx);
  one.prompt = prompt.ids;
  one.max_tokens = prompt.max_tokens;
  one.sampling = request.sampling;
  if (one.sampling.seed) one.sampling.seed = choice_seed(*one.sampling.seed, choice_of_prompt);
  one.stop_token_ids = request.stop_token_ids;
  one.ignore_model_stops = request.ignore_eos;
  one.priority = request.priority;
  one.client = request.client;
  one.cache_salt = request.cache_salt;
  one.score_prompt = request.echo && request.logprobs;
  if (prompt.constraint) one.mask = prompt.constraint->make_mask();
  parts_.push_back({.choice = Choice(context_->model.tokenizer,
                                     {.stops = request.stops,
                                      .skip_special_tokens = request.skip_special_tokens,
                                      .echo = prompt.echo,
                                      .scored_prompt = one.score_prompt ? prompt.ids : std::vector<int32_t>(),
                                      .prompt_offsets = prompt.offsets,
                                      .reading = prompt.reading}),
                    .whole = {}});
  ++num_open_;
  return send(std::move(one));
}

void Completion::on_event(size_t index, const request::TokenEvent& event) {
  Part& part = parts_[index];
  part.cached_tokens = event.cached_tokens;
  part.drafted_tokens = event.drafted_tokens;
  part.accepted_tokens = event.accepted_tokens;
  part.whole.evicted_tokens = std::max(part.whole.evicted_tokens, event.evicted_tokens);
  if (part.choice.is_done()) return;
  // What was taken and then turns out to be wrong is a constraint that cannot be followed.
  if (event.finish == FinishReason::kError && event.error.code() == StatusCode::kInvalidArgument &&
      !mask_field_.empty()) {
    fail(bad_field(mask_field_, event.error.message()));
    return;
  }
  if (ends_badly(event)) return;
  if (event.token) time_token(part);
  if (streams_ && !stream_begun_) begin_stream();
  ChoicePiece piece = part.choice.push(event);
  if (part.choice.is_done()) cancel(index);  // a stop string, or a call
  if (!piece.is_empty()) deliver(index, std::move(piece));
}

void Completion::time_token(Part& part) {
  const int64_t now = now_ns();
  if (record_.first_token_ns == 0) record_.first_token_ns = now;
  if (part.choice.num_tokens() == 0) {
    context_->metrics->first_token.observe(static_cast<double>(now - record_.arrived_ns) / 1e9);
  } else {
    context_->metrics->inter_token.observe(static_cast<double>(now - part.last_token_ns) / 1e9);
  }
  part.last_token_ns = now;
}

// The head goes out with the first event, so that a fault before it still has a status code of its own.
void Completion::begin_stream() {
  stream_begun_ = true;
  exchange_->begin_stream("text/event-stream; charset=utf-8");
  if (!head_.chat) return;
  std::string roles;
  for (size_t i = 0; i < parts_.size(); ++i) roles += sse_event(role_chunk_json(head_, static_cast<int64_t>(i)));
  exchange_->send(std::move(roles));
}

void Completion::deliver(size_t part_idx, ChoicePiece piece) {
  Part& part = parts_[part_idx];
  const FinishReason finish_reason = piece.finish;
  const std::string_view name = finish_name(finish_reason, piece.has_calls);
  if (record_.finish.find(name) == std::string::npos) {
    record_.finish += (record_.finish.empty() ? "" : ",") + std::string(name);
  }
  const auto idx = static_cast<int64_t>(part_idx);
  if (streams_) {
    std::string events;
    const int64_t evicted = part.whole.evicted_tokens;
    events +=
        head_.chat ? chat_piece_events(head_, idx, piece) : sse_event(piece_chunk_json(head_, idx, piece, evicted));
    if (head_.chat && finish_reason != FinishReason::kNone) {
      events += sse_event(finish_chunk_json(head_, idx, name, evicted));
    }
    exchange_->send(std::move(events));
  } else {
    append(part.whole, std::move(piece));
  }
  if (finish_reason != FinishReason::kNone && --num_open_ == 0) finish();
}

Usage Completion::usage() const {
  Usage usage{.prompt_tokens = num_prompt_tokens_};
  for (size_t i = 0; i < parts_.size(); ++i) {
    usage.completion_tokens += parts_[i].choice.num_tokens();
    usage.reasoning_tokens += parts_[i].choice.num_reasoning_tokens();
    usage.drafted_tokens += parts_[i].drafted_tokens;
    usage.accepted_tokens += parts_[i].accepted_tokens;
    if (static_cast<int64_t>(i) % choices_per_prompt_ == 0) usage.cached_tokens += parts_[i].cached_tokens;
  }
  return usage;
}

void Completion::finish() {
  over_ = true;
  close(200, "");
  if (streams_) {
    std::string last;
    if (head_.include_usage) last += sse_event(usage_chunk_json(head_, usage()));
    last += kSseDone;
    exchange_->send(std::move(last));
    exchange_->end_stream();
    return;
  }
  std::vector<WholeChoice> choices;
  for (Part& part : parts_) choices.push_back(std::move(part.whole));
  exchange_->respond({.body = whole_json(head_, choices, usage())});
}

void Completion::count(RequestRecord& record) const {
  const Usage total = usage();
  record.choices = static_cast<int64_t>(parts_.size());
  record.prompt_tokens = total.prompt_tokens;
  record.cached_tokens = total.cached_tokens;
  record.output_tokens = total.completion_tokens;
}

}  // namespace firstlight::server
