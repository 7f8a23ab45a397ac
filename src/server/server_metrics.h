// SPDX-License-Identifier: Apache-2.0
// What the server counts: requests by route and code, times as a client sees them. Handles of a base Metrics; made by
// default they count nothing.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/metrics.h"

namespace firstlight::server {

class ServerMetrics {
 public:
  explicit ServerMetrics(Metrics* metrics);  // null: counts nothing

  // `route` is one of ours, never what a client wrote. Errors are counted by class too. Safe to use from any thread.
  void count_request(const std::string& route, int code);
  // Gauges that are read when somebody asks: this process's memory, and whether it is ready.
  void refresh(bool is_ready);

  Gauge connections;       // open ones
  Gauge in_flight;         // completions between the end of their body and the end of their answer
  Counter disconnects;     // clients that hung up before the end of their answer
  Histogram prepare_wait;  // before a thread took up the body
  Histogram prepare;       // reading it, rendering, tokenising
  Histogram first_token;   // from the whole request to its first token
  Histogram inter_token;   // between tokens of one choice
  Histogram whole_request;

 private:
  Metrics* metrics_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, Counter> requests_;
  std::map<std::string, Counter, std::less<>> errors_;
  Gauge ready_, resident_;
};

// "invalid_request", "queue_full", "timeout", …; empty where `code` is no error.
std::string_view error_class(int code);

}  // namespace firstlight::server
