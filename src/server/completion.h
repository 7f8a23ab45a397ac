// SPDX-License-Identifier: Apache-2.0
// One completion request from its prepared prompts to the end of its answer: submits a request per choice, turns token
// events into pieces, writes them as a stream or gathers them, and cancels what runs when the client goes, the time is
// over or the server stops. Everything runs on the exchange's own sequence. Heavy header: for .cc files only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/choice.h"
#include "server/http.h"
#include "server/openai_api.h"
#include "server/openai_json.h"
#include "server/pace.h"
#include "server/prompt.h"
#include "server/request_record.h"
#include "server/server_metrics.h"

namespace firstlight::server {

// What outlives single requests.
struct CompletionContext {
  ServedModel model;
  std::shared_ptr<ServerMetrics> metrics;
  std::shared_ptr<RequestJournal> journal;
  std::shared_ptr<Pace> pace;
  double request_timeout_s = 0;  // of requests that name none; the exchange keeps the time
};

class Completion final : public std::enable_shared_from_this<Completion> {
 public:
  // `record` has what is known of the request so far.
  Completion(std::shared_ptr<const CompletionContext> context, std::shared_ptr<Exchange> exchange,
             RequestRecord record);
  ~Completion();

  void watch();                   // from now on, whether the client goes and the time passes
  void prepared(int64_t now_ns);  // a thread has begun to prepare it
  void start(const ApiRequest& request, std::vector<PreparedPrompt> prompts);
  void fail(const ApiError& error);  // before or after start()

 private:
  struct Part {
    Choice choice;
    WholeChoice whole;
    Ticket ticket = 0;
    bool ended = false;  // no further events from the generator
    int64_t cached_tokens = 0, drafted_tokens = 0, accepted_tokens = 0;
    int64_t last_token_ns = 0;
  };

  bool submit(const ApiRequest& request, const PreparedPrompt& prompt, int64_t choice_of_prompt);
  void on_event(size_t part_idx, const request::TokenEvent& event);
  void on_end(ExchangeEnd end);
  void begin_stream();
  void deliver(size_t part_idx, ChoicePiece piece);
  void finish();
  void cancel_all();
  void close(int status, const std::string& error);
  void refuse_full();
  void time_token(Part& part);
  Usage usage() const;

  std::shared_ptr<const CompletionContext> context_;
  std::shared_ptr<Exchange> exchange_;
  RequestRecord record_;
  double timeout_s_ = 0;
  AnswerHead head_;
  bool streams_ = false;
  bool stream_begun_ = false;
  bool over_ = false;  // answered, failed or left
  std::vector<Part> parts_;
  int64_t choices_per_prompt_ = 1;
  int64_t num_prompt_tokens_ = 0;
  size_t num_open_ = 0;  // choices without a finish
};

// The seed of choice `i` of a request with this seed: the seed itself for the first, streams of their own for others.
uint64_t choice_seed(uint64_t seed, int64_t i);

}  // namespace firstlight::server
