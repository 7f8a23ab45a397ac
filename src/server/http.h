// SPDX-License-Identifier: Apache-2.0
// HTTP as the routes see it: a request, a response, and the exchange that carries the answer back, whole or as a
// stream. No library type shows here; http_server.h is what speaks to sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace firstlight::server {

struct HttpRequest {
  std::string method;  // upper case
  std::string path;    // without the query
  std::string authorization;
  std::string content_type;
  std::string body;
  std::string if_none_match = {};
  std::string request_id = {};  // X-Request-Id, as it came
  bool wants_trace = false;     // X-Trace: 1
  std::string peer = {};        // the client's address
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
};

// "Not Found" for 404 and so on.
std::string_view http_reason(int status);

// Why an exchange must end early.
enum class ExchangeEnd : uint8_t {
  kGone,      // the client hung up: nothing can be sent any more
  kTimedOut,  // the time for one request is over: an error can still be sent
  kShutdown,  // the server stops and has waited long enough: likewise
};

// One request's way back. Only post() may be called from any thread; everything else belongs to the exchange's own
// sequence: the handler's call, work that was posted, and the `on_end` callback. Exactly one answer: respond(), or
// begin_stream(), send()…, end_stream(). After the answer, or once the client is gone, all of them do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void post(std::function<void()> work) = 0;
  // A header of the answer, whichever form it takes.
  virtual void add_header(std::string name, std::string value) = 0;
  // Time is over (kTimedOut) in so many seconds, and not when the server's own limit says.
  virtual void expire_after(double seconds) = 0;
  virtual void respond(HttpResponse response) = 0;
  virtual void begin_stream(std::string_view content_type) = 0;
  virtual void send(std::string piece) = 0;
  virtual void end_stream() = 0;
  // Called at most once per reason while the answer is not complete; kept until it is.
  virtual void on_end(std::function<void(ExchangeEnd)> callback) = 0;
  virtual bool is_over() const = 0;
};

using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<Exchange>)>;

}  // namespace firstlight::server
