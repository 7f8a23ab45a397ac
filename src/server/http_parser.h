// SPDX-License-Identifier: Apache-2.0
// Bytes of a connection to requests: HTTP/1.x with limits on head and body. Knows no sockets, so the same reader is fed
// by connections, tests and the fuzzer. The library behind it stays in http_parser.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http.h"

namespace firstlight::server {

struct HttpLimits {
  size_t max_header_bytes = size_t{16} << 10;
  size_t max_body_bytes = size_t{16} << 20;
};

// Reads one request; make a new one for the next.
class HttpParser {
 public:
  enum class State : uint8_t { kNeedMore, kReady, kFailed };

  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();

  // Takes bytes from the front of `bytes`; what it did not take must be fed again, with more behind it. Once kReady,
  // the rest belongs to the next request.
  State feed(std::string_view bytes, size_t& num_taken);

  bool has_head() const;         // the head is complete
  bool wants_continue() const;   // the client waits for "100 Continue" before it sends the body
  bool keeps_alive() const;      // the connection may carry a further request
  bool allows_chunks() const;    // HTTP/1.1: the answer may come in chunks
  bool is_head_request() const;  // the answer has no body

  HttpRequest take();  // after kReady

  // After kFailed: 400, 413 or 431, and what was wrong.
  int error_status() const { return error_status_; }
  const std::string& error_message() const { return error_message_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  HttpLimits limits_;
  int error_status_ = 0;
  std::string error_message_;
};

}  // namespace firstlight::server
