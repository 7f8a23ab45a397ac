// SPDX-License-Identifier: Apache-2.0
// An exchange that the engine works for, whatever it is asked for: its requests on their way, and every way in which it
// ends. Completion and Embeddings say what is sent and what the answer looks like. Everything runs on the exchange's
// own sequence. Heavy header: for .cc files only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/http.h"
#include "server/pace.h"
#include "server/request_record.h"
#include "server/served_model.h"
#include "server/server_metrics.h"

namespace firstlight::server {

// What outlives single requests.
struct AnswerContext {
  ServedModel model;
  std::shared_ptr<ServerMetrics> metrics;
  std::shared_ptr<RequestJournal> journal;
  std::shared_ptr<Pace> pace;
  double request_timeout_s = 0;  // of requests that name none; the exchange keeps the time
};

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  // `record` has what is known of the request so far.
  Answer(std::shared_ptr<const AnswerContext> context, std::shared_ptr<Exchange> exchange, RequestRecord record);
  virtual ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  void watch();                      // from now on, whether the client goes and the time passes
  void prepared(int64_t now_ns);     // a thread has begun to prepare it
  void fail(const ApiError& error);  // before or after its requests were sent

 protected:
  // One request more: events come to on_event() with its place among them. Errors: the generator's.
  Status send(request::Request one);
  size_t num_sent() const { return sent_.size(); }
  void cancel(size_t index);                          // one that has ended already is left alone
  void refuse(const Status& not_sent);                // 429 where it may work later; the others' places are taken back
  bool ends_badly(const request::TokenEvent& event);  // an error, or a stop of the engine: then it has failed
  void close(int status, const std::string& error);

  // Not called once it is over.
  virtual void on_event(size_t index, const request::TokenEvent& event) = 0;
  // Tokens and choices.
  virtual void count(RequestRecord& record) const = 0;

  std::shared_ptr<const AnswerContext> context_;
  std::shared_ptr<Exchange> exchange_;
  RequestRecord record_;
  double timeout_s_ = 0;
  bool stream_begun_ = false;
  bool over_ = false;  // answered, failed or left

 private:
  struct Sent {
    Ticket ticket = 0;
    bool ended = false;  // no further events from the generator
  };

  void hear(size_t index, const request::TokenEvent& event);
  void on_end(ExchangeEnd end);
  void cancel_all();

  std::vector<Sent> sent_;
};

}  // namespace firstlight::server
