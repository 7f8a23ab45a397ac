// SPDX-License-Identifier: Apache-2.0
#include "server/http_parser.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace firstlight::server {

namespace http = boost::beast::http;

struct HttpParser::Impl {
  http::request_parser<http::string_body> parser;
};

HttpParser::HttpParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>()), limits_(limits) {
  impl_->parser.header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
  impl_->parser.body_limit(limits.max_body_bytes);
  impl_->parser.eager(true);
}

HttpParser::~HttpParser() = default;

HttpParser::State HttpParser::feed(std::string_view bytes, size_t& num_taken) {
  num_taken = 0;
  boost::beast::error_code error;
  while (!impl_->parser.is_done()) {
    const auto rest = bytes.substr(num_taken);
    if (rest.empty()) return State::kNeedMore;
    const size_t taken = impl_->parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
    num_taken += taken;
    if (error == http::error::need_more || (!error && taken == 0)) return State::kNeedMore;
    if (!error) continue;
    if (error == http::error::body_limit) {
      error_status_ = 413;
      const auto length = impl_->parser.content_length();  // none of a body in chunks
      error_message_ = "the body has " +
                       (length ? std::to_string(*length) : "at least " + std::to_string(limits_.max_body_bytes + 1)) +
                       " bytes, at most " + std::to_string(limits_.max_body_bytes) + " are taken";
    } else if (error == http::error::header_limit) {
      error_status_ = 431;
      error_message_ =
          "the head has more than the " + std::to_string(limits_.max_header_bytes) + " bytes that are taken";
    } else {
      error_status_ = 400;
      error_message_ = "not HTTP: " + error.message();
    }
    return State::kFailed;
  }
  return State::kReady;
}

bool HttpParser::has_head() const { return impl_->parser.is_header_done(); }

bool HttpParser::wants_continue() const {
  return has_head() && allows_chunks() &&
         boost::beast::iequals(impl_->parser.get()[http::field::expect], "100-continue");
}

bool HttpParser::keeps_alive() const { return has_head() && impl_->parser.get().keep_alive(); }
bool HttpParser::allows_chunks() const { return has_head() && impl_->parser.get().version() >= 11; }
bool HttpParser::is_head_request() const { return has_head() && impl_->parser.get().method() == http::verb::head; }

HttpRequest HttpParser::take() {
  auto message = impl_->parser.release();
  const auto text = [](boost::beast::string_view view) { return std::string(view.data(), view.size()); };
  HttpRequest request;
  request.method = text(message.method_string());
  request.path = text(message.target());
  if (const size_t query = request.path.find_first_of("?#"); query != std::string::npos) request.path.resize(query);
  request.authorization = text(message[http::field::authorization]);
  request.content_type = text(message[http::field::content_type]);
  request.if_none_match = text(message[http::field::if_none_match]);
  request.request_id = text(message["X-Request-Id"]);
  request.wants_trace = text(message["X-Trace"]) == "1";
  request.body = std::move(message.body());
  return request;
}

}  // namespace firstlight::server
