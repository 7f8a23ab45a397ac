// SPDX-License-Identifier: Apache-2.0
// The OpenAI-compatible server: what the composition root sees of this module. It puts the routes (api_service.h) on
// sockets (http_server.h) and takes both down in order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/metrics.h"
#include "base/status.h"
#include "server/readiness.h"
#include "server/served_model.h"

namespace firstlight::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;         // 0: any free one
  std::string api_key;  // of /v1/… and tokenising; empty: none is asked for
  size_t max_body_bytes = size_t{16} << 20;
  size_t max_header_bytes = size_t{16} << 10;
  size_t max_connections = 1024;
  int64_t max_choices = 128;       // of one request: its prompts times n
  int64_t max_waiting = 128;       // as the engine has it
  double request_timeout_s = 600;  // from a whole request to the end of its answer, waiting included
  double header_timeout_s = 15;
  double body_timeout_s = 60;
  double idle_timeout_s = 75;
  double write_timeout_s = 30;
  double drain_timeout_s = 30;  // what a stop leaves to running requests
  bool trace_requests = false;  // all of them, not only those that ask for it
  int num_threads = 2;          // of the network
  int num_prepare_threads = 2;  // for reading, rendering and tokenising
};

class Server {
 public:
  // `readiness`, `metrics`, `log` (both may be null) and what `model` points to must outlive the server. The
  // generator must still work while the server is destroyed.
  Server(const ServedModel& model, const ServerOptions& options, Readiness& readiness, Metrics* metrics,
         const Log* log);
  ~Server();

  // Binds and begins to answer (completions only once ready). Errors: kInvalidArgument for the host, kUnavailable for
  // the port.
  Status start();
  int port() const;  // after start()

  // Blocks until a stop has been asked for and running requests have ended, for drain_timeout_s at most.
  void run();
  // Any thread, or a signal handler; after start(). A second one does not wait for running requests.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace firstlight::server
