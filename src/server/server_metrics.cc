// SPDX-License-Identifier: Apache-2.0
#include "server/server_metrics.h"

#include <unistd.h>

#include <fstream>
#include <vector>

#include "server/request_record.h"

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
  ready_ = metrics->gauge("firstlight_ready", "1 when the golden prompt has been reproduced since the last fault");
  resident_ = metrics->gauge("process_resident_memory_bytes", "memory of this process that is in the machine's");
  for (const int code : {400, 401, 404, 408, 413, 429, 499, 500, 503, 504}) {
    errors_[std::string(error_class(code))] =
        metrics->counter("firstlight_errors_total", "requests without the answer they asked for, by class",
                         {{"class", std::string(error_class(code))}});
  }
}

std::string_view error_class(int code) {
  switch (code) {
    case 401:
      return "authentication";
    case 404:
      return "not_found";
    case 408:
    case 504:
      return "timeout";
    case 413:
    case 431:
      return "too_large";
    case 429:
      return "queue_full";
    case kClientGone:
      return "client_gone";
    case 503:
      return "unavailable";
    default:
      if (code < 400) return "";
      return code < 500 ? "invalid_request" : "internal";
  }
}

void ServerMetrics::refresh(bool is_ready) {
  ready_.set(is_ready ? 1 : 0);
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  if (file >> size >> resident) resident_.set(resident * static_cast<double>(::sysconf(_SC_PAGESIZE)));
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
  if (const auto error = errors_.find(error_class(code)); error != errors_.end()) error->second.add();
}

}  // namespace firstlight::server
