// SPDX-License-Identifier: Apache-2.0
#include "server/server_metrics.h"

#include <vector>

namespace firstlight::server {

ServerMetrics::ServerMetrics(Metrics* metrics) : metrics_(metrics) {
  if (metrics == nullptr) return;
  const std::vector<double> long_times = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
  const std::vector<double> short_times = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5};
  connections = metrics->gauge("firstlight_http_connections", "open connections");
  in_flight = metrics->gauge("firstlight_http_requests_in_flight", "completion requests being answered");
  disconnects = metrics->counter("firstlight_http_disconnects_total", "clients gone before the end of their answer");
  prepare_wait = metrics->histogram("firstlight_prepare_wait_seconds",
                                    "wait of a request's body for a thread that reads it", short_times);
  prepare =
      metrics->histogram("firstlight_prepare_seconds", "reading a body, rendering and tokenising it", short_times);
  first_token = metrics->histogram("firstlight_time_to_first_token_seconds", "from a whole request to its first token",
                                   long_times);
  inter_token = metrics->histogram("firstlight_inter_token_seconds", "between tokens of one choice", short_times);
  whole_request =
      metrics->histogram("firstlight_request_seconds", "from a whole request to the end of its answer", long_times);
}

void ServerMetrics::count_request(const std::string& route, int code) {
  if (metrics_ == nullptr) return;
  const std::scoped_lock lock(mutex_);
  const auto [found, is_new] = requests_.try_emplace({route, code});
  if (is_new) {
    found->second = metrics_->counter("firstlight_http_requests_total", "requests answered, by route and status code",
                                      {{"route", route}, {"code", std::to_string(code)}});
  }
  found->second.add();
}

}  // namespace firstlight::server
