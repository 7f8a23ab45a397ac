// SPDX-License-Identifier: Apache-2.0
// What the server counts: requests by route and code, times as a client sees them. Handles of a base Metrics; made by
// default they count nothing.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/metrics.h"

namespace firstlight::server {

class ServerMetrics {
 public:
  explicit ServerMetrics(Metrics* metrics);  // null: counts nothing

  // `route` is one of ours, never what a client wrote. Safe to use from any thread.
  void count_request(const std::string& route, int code);

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
};

}  // namespace firstlight::server
