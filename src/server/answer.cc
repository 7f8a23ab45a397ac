// SPDX-License-Identifier: Apache-2.0
#include "server/answer.h"

#include <utility>

#include "base/trace.h"
#include "server/field_reader.h"
#include "server/openai_json.h"

namespace firstlight::server {

using request::FinishReason;

Answer::Answer(std::shared_ptr<const AnswerContext> context, std::shared_ptr<Exchange> exchange, RequestRecord record)
    : context_(std::move(context)),
      exchange_(std::move(exchange)),
      record_(std::move(record)),
      timeout_s_(context_->request_timeout_s) {
  context_->metrics->in_flight.add(1);
}

Answer::~Answer() { context_->metrics->in_flight.add(-1); }

// The exchange keeps this object alive; the generator's sinks do not.
void Answer::watch() {
  exchange_->on_end([self = shared_from_this()](ExchangeEnd end) { self->on_end(end); });
}

void Answer::prepared(int64_t now_ns) { record_.prepare_ns = now_ns; }

Status Answer::send(request::Request one) {
  const size_t index = sent_.size();
  const Ticket ticket = FL_TRY(context_->model.generator->submit(
      std::move(one), [weak = weak_from_this(), index](const request::TokenEvent& event) {
        const auto self = weak.lock();
        if (self == nullptr) return;
        self->exchange_->post([self, index, event] { self->hear(index, event); });
      }));
  sent_.push_back({.ticket = ticket});
  return ok_status();
}

void Answer::hear(size_t index, const request::TokenEvent& event) {
  if (event.finish != FinishReason::kNone) {
    sent_[index].ended = true;
    context_->pace->ended(Pace::Clock::now());
  }
  if (record_.admitted_ns == 0) record_.admitted_ns = event.admitted_ns;
  if (!over_) on_event(index, event);
}

bool Answer::ends_badly(const request::TokenEvent& event) {
  if (event.finish == FinishReason::kError) {
    fail(to_api_error(event.error.ok() ? internal_error("the engine says no reason") : event.error));
  } else if (event.finish == FinishReason::kCancelled) {
    fail(shutting_down());
  }
  return over_;
}

void Answer::refuse(const Status& not_sent) {
  if (not_sent.code() != StatusCode::kUnavailable) {
    fail(to_api_error(not_sent));
    return;
  }
  const int64_t waiting = context_->model.generator->num_waiting();
  fail({429, "the queue is full: " + std::to_string(waiting) + " requests wait", "", "queue_full",
        context_->pace->retry_after_s(waiting, Pace::Clock::now())});
}

void Answer::fail(const ApiError& error) {
  if (over_) return;
  over_ = true;
  cancel_all();
  close(error.http_status, error.http_status >= 500 ? error.message : error.code.empty() ? error.param : error.code);
  if (!stream_begun_) {
    exchange_->respond(error_response(error));
    return;
  }
  exchange_->send(sse_event(error_json(error)) + std::string(kSseDone));
  exchange_->end_stream();
}

void Answer::on_end(ExchangeEnd end) {
  switch (end) {
    case ExchangeEnd::kGone:
      if (over_) return;
      over_ = true;
      context_->metrics->disconnects.add();
      cancel_all();
      close(kClientGone, "");
      return;
    case ExchangeEnd::kTimedOut:
      fail({504, "the request took longer than " + number_text(timeout_s_) + " seconds", "", "timeout"});
      return;
    case ExchangeEnd::kShutdown:
      fail(shutting_down());
      return;
  }
}

// An engine should see no cancel for what it finished itself.
void Answer::cancel(size_t index) {
  if (!sent_[index].ended) context_->model.generator->cancel(sent_[index].ticket);
}

void Answer::cancel_all() {
  for (size_t i = 0; i < sent_.size(); ++i) cancel(i);
}

void Answer::close(int status, const std::string& error) {
  record_.status = status;
  record_.error = error;
  record_.ended_ns = now_ns();
  count(record_);
  context_->metrics->count_request(record_.route, status);
  context_->metrics->whole_request.observe(static_cast<double>(record_.ended_ns - record_.arrived_ns) / 1e9);
  context_->journal->add(record_);
}

}  // namespace firstlight::server
