// SPDX-License-Identifier: Apache-2.0
// What is remembered of one request when it has ended: a line of the log, and its trace where one was asked for. Never
// its text.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace firstlight::server {

// Times are monotonic nanoseconds (base/trace.h); 0: it did not get that far.
struct RequestRecord {
  std::string id;  // X-Request-Id
  std::string route;
  std::string peer;    // the client's address
  std::string client;  // who it says it is (the field `user`)
  bool wants_trace = false;
  bool streamed = false;
  int status = 0;      // 499: the client left
  std::string finish;  // of the choices, each kind once: "stop", "length", "stop,length"
  std::string error;
  int64_t choices = 0, prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int64_t arrived_ns = 0;    // the whole request was there
  int64_t prepare_ns = 0;    // a thread took it up
  int64_t submitted_ns = 0;  // the engine had it
  int64_t admitted_ns = 0;   // the first of its choices had a place
  int64_t first_token_ns = 0;
  int64_t ended_ns = 0;
};

inline constexpr int kClientGone = 499;

// The id that a request goes by: the client's own when it is 1 to 128 letters, digits, '-', '_', '.' or ':'; else a
// fresh one.
std::string request_id_of(std::string_view wanted);

// Safe to use from any thread.
class RequestJournal {
 public:
  // `log` may be null. `trace_all`: of every request, not only of those that ask for it.
  RequestJournal(const Log* log, bool trace_all) : log_(log), trace_all_(trace_all) {}

  void add(const RequestRecord& record);
  // The trace of one of the last 1,000 traced requests, in the form of base/trace.h; none: unknown or forgotten.
  std::optional<std::string> trace(std::string_view id) const;

 private:
  const Log* log_;
  bool trace_all_;
  mutable std::mutex mutex_;
  std::deque<RequestRecord> traced_;
};

// The spans wait, prepare, queue, prefill and decode, as far as it got, as a document in the Chrome trace format.
std::string request_trace(const RequestRecord& record);

}  // namespace firstlight::server
