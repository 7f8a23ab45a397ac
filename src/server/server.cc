// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <utility>

#include "base/check.h"
#include "server/api_service.h"
#include "server/http_server.h"

namespace firstlight::server {

struct Server::Impl {
  ServerOptions options;
  Readiness& readiness;
  const Log* log;
  ApiService service;
  std::unique_ptr<HttpServer> http;  // after the service, which its threads call: they end first
};

Server::Server(const ServedModel& model, const ServerOptions& options, Readiness& readiness, Metrics* metrics,
               const Log* log) {
  const ApiServiceOptions service = {.api_key = options.api_key,
                                     .max_choices = options.max_choices,
                                     .max_waiting = options.max_waiting,
                                     .num_prepare_threads = options.num_prepare_threads,
                                     .request_timeout_s = options.request_timeout_s,
                                     .trace_requests = options.trace_requests};
  impl_.reset(new Impl{options, readiness, log, ApiService(model, service, readiness, metrics, log), nullptr});
}

Server::~Server() {
  if (impl_->http) {
    stop();
    stop();  // nobody waits for it in run() any more
    impl_->http->wait();
  }
}

Status Server::start() {
  const ServerOptions& options = impl_->options;
  impl_->http = FL_TRY(HttpServer::start(
      {.host = options.host,
       .port = options.port,
       .num_threads = options.num_threads,
       .max_connections = options.max_connections,
       .limits = {.max_header_bytes = options.max_header_bytes, .max_body_bytes = options.max_body_bytes},
       .header_timeout_s = options.header_timeout_s,
       .body_timeout_s = options.body_timeout_s,
       .idle_timeout_s = options.idle_timeout_s,
       .write_timeout_s = options.write_timeout_s,
       .request_timeout_s = options.request_timeout_s,
       .drain_timeout_s = options.drain_timeout_s,
       .on_drain = [this] { impl_->readiness.drain(); },
       .on_failure = [this](int status) { impl_->service.count_failure(status); }},
      [this](HttpRequest request, std::shared_ptr<Exchange> exchange) {
        impl_->service.handle(std::move(request), std::move(exchange));
      },
      impl_->service.connections_gauge(), impl_->log));
  return ok_status();
}

int Server::port() const {
  FL_CHECK(impl_->http != nullptr);
  return impl_->http->port();
}

void Server::run() {
  FL_CHECK(impl_->http != nullptr);
  impl_->http->wait_for_stop();
  impl_->http->wait();
}

void Server::stop() { impl_->http->stop(); }

}  // namespace firstlight::server
