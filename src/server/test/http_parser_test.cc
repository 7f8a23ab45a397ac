// SPDX-License-Identifier: Apache-2.0
#include "server/http_parser.h"

#include <gtest/gtest.h>

namespace firstlight::server {
namespace {

using State = HttpParser::State;

// Feeds in pieces of `step` bytes, as a connection would; the rest that was not taken stays in `text`.
State feed_all(HttpParser& parser, std::string& text, size_t step) {
  std::string received;
  State state = State::kNeedMore;
  while (state == State::kNeedMore && !text.empty()) {
    received += text.substr(0, step);
    text.erase(0, step);
    size_t num_taken = 0;
    state = parser.feed(received, num_taken);
    received.erase(0, num_taken);
  }
  text.insert(0, received);
  return state;
}

constexpr std::string_view kPost =
    "POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nauthorization: Bearer k\r\n"
    "Content-Type: application/json\r\nContent-Length: 4\r\n\r\n{\"\"}GET / HTTP/1.1\r\n\r\n";

TEST(HttpParser, ReadsARequestHoweverItIsCut) {
  for (const size_t step : {1, 2, 3, 7, 50, 1000}) {
    HttpParser parser({});
    std::string text(kPost);
    ASSERT_EQ(feed_all(parser, text, step), State::kReady) << step;
    EXPECT_TRUE(parser.keeps_alive());
    EXPECT_TRUE(parser.allows_chunks());
    EXPECT_FALSE(parser.is_head_request());
    const HttpRequest request = parser.take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/completions");
    EXPECT_EQ(request.authorization, "Bearer k");
    EXPECT_EQ(request.content_type, "application/json");
    EXPECT_EQ(request.body, "{\"\"}");
    EXPECT_EQ(text, "GET / HTTP/1.1\r\n\r\n") << "the next request was touched";
  }
}

TEST(HttpParser, ReadsChunkedBodies) {
  for (const size_t step : {1, 5, 1000}) {
    HttpParser parser({});
    std::string text = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    ASSERT_EQ(feed_all(parser, text, step), State::kReady) << step;
    EXPECT_EQ(parser.take().body, "abcde");
  }
}

TEST(HttpParser, KnowsWhenAConnectionEnds) {
  HttpParser closing({});
  std::string text = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(feed_all(closing, text, 100), State::kReady);
  EXPECT_FALSE(closing.keeps_alive());
  HttpParser old({});
  text = "GET / HTTP/1.0\r\n\r\n";
  ASSERT_EQ(feed_all(old, text, 100), State::kReady);
  EXPECT_FALSE(old.keeps_alive());
  EXPECT_FALSE(old.allows_chunks());
}

TEST(HttpParser, SeesThatTheClientWaitsToSendItsBody) {
  HttpParser parser({});
  std::string text = "POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(feed_all(parser, text, 100), State::kNeedMore);
  EXPECT_TRUE(parser.has_head());
  EXPECT_TRUE(parser.wants_continue());
}

int status_of(std::string text, const HttpLimits& limits = {}) {
  HttpParser parser(limits);
  if (feed_all(parser, text, 11) != State::kFailed) return 0;
  EXPECT_FALSE(parser.error_message().empty());
  return parser.error_status();
}

TEST(HttpParser, RefusesWhatIsNotHttp) {
  EXPECT_EQ(status_of("hello\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/9.9\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET  / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nContent-Length: -4\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 400);
  EXPECT_EQ(status_of(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15)), 400);  // TLS
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(HttpParser, KeepsItsLimits) {
  const HttpLimits limits = {.max_header_bytes = 200, .max_body_bytes = 10};
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nX: " + std::string(300, 'x'), limits), 431);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", limits), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n", limits),
            413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", limits), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789", limits), 0);
}

TEST(HttpParser, NamesReasons) {
  for (const int status : {200, 400, 401, 404, 405, 408, 413, 415, 431, 500, 503, 504}) {
    EXPECT_NE(http_reason(status), "Unknown") << status;
  }
  EXPECT_EQ(http_reason(299), "Unknown");
}

}  // namespace
}  // namespace firstlight::server
