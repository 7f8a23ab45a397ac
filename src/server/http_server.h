// SPDX-License-Identifier: Apache-2.0
// Sockets to exchanges: accepts connections, reads requests within the limits, hands them to a handler and writes what
// comes back. Keep-alive, streams in chunks, time limits for every phase, and a client that hangs up is noticed while
// its request runs. A few threads serve any number of connections, so the handler must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/metrics.h"
#include "base/status.h"
#include "server/http.h"
#include "server/http_parser.h"

namespace firstlight::server {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  int num_threads = 2;
  size_t max_connections = 1024;  // further ones get a 503
  HttpLimits limits;
  double header_timeout_s = 15;              // from a request's first byte to the end of its head
  double body_timeout_s = 60;                // from there to the end of its body
  double idle_timeout_s = 75;                // between requests of one connection
  double write_timeout_s = 30;               // without a byte taken by the client
  double request_timeout_s = 600;            // from the whole request to the end of its answer
  double drain_timeout_s = 30;               // what stop() leaves to running requests
  std::function<void()> on_drain = {};       // a stop has been asked for; on a thread of the server's
  std::function<void(int)> on_failure = {};  // a request was answered with this status before there was a whole one
};

class HttpServer {
 public:
  // Binds and starts its threads. `log` may be null. Errors: kInvalidArgument for a host that is not an address or a
  // name of this machine, kUnavailable when the port is taken.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, HttpHandler handler,
                                                   Gauge connections, const Log* log);
  ~HttpServer();  // stop(), wait()

  int port() const;
  // Ends what is idle and, once no request runs any more, everything. Until then new connections are answered, so that
  // whoever asks for the readiness learns that the server drains; the handler refuses what would be new work. May be
  // called from a signal handler. The second stop() does not wait for running requests.
  void stop();
  // Returns when a stop has been asked for.
  void wait_for_stop();
  // After a stop: until the last connection is closed.
  void wait();

 private:
  struct Core;
  explicit HttpServer(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace firstlight::server
