// SPDX-License-Identifier: Apache-2.0
// The routes: which path answers what, who may ask, and what is refused before any work is done. Between HTTP (http.h)
// and completions (completion.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "server/http.h"
#include "server/readiness.h"
#include "server/served_model.h"

namespace firstlight::server {

struct ApiServiceOptions {
  std::string api_key;  // of /v1/… and tokenising; empty: none is asked for
  int64_t max_choices = 128;
  int64_t max_waiting = 128;    // as the engine has it
  int num_prepare_threads = 2;  // 0: on the caller's thread (tests)
  size_t max_preparing = 256;   // bodies that may wait for such a thread
  double request_timeout_s = 600;
  bool trace_requests = false;  // all of them
};

class ApiService {
 public:
  // `readiness`, `metrics` (may be null) and `log` (may be null; a line per request goes there) must outlive the
  // service.
  ApiService(const ServedModel& model, const ApiServiceOptions& options, const Readiness& readiness, Metrics* metrics,
             const Log* log);
  ~ApiService();  // bodies that nobody has taken up are dropped

  // Never blocks.
  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange);

  Gauge connections_gauge() const;
  // A request that was answered with this status before there was a whole one.
  void count_failure(int status);

  // Method and path of every route; a path that ends in * stands for all that begin so.
  static std::vector<std::pair<std::string_view, std::string_view>> routes();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Equal in a time that does not depend on where they differ.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace firstlight::server
