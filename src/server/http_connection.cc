// SPDX-License-Identifier: Apache-2.0
#include "server/http_connection.h"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <chrono>
#include <ctime>

namespace firstlight::server {
namespace {

// While a request runs, this much of the client's next ones is read ahead; reading on is how a hang-up is noticed.
constexpr size_t kMaxReadAhead = size_t{64} << 10;
// A streaming client that lets this much pile up is treated as gone.
constexpr size_t kMaxUnsentBytes = size_t{4} << 20;
// After an answer that ends the connection early: how long and how much is still read, so that the client sees the
// answer and not a reset.
constexpr double kLingerSeconds = 1;
constexpr size_t kMaxDiscardedBytes = size_t{64} << 20;

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[40];
  const size_t size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text, size};
}

std::string response_head(const HttpResponse& response, bool keep_alive, std::optional<size_t> length, bool chunked) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head += http_reason(response.status);
  head += "\r\nDate: " + http_date() + "\r\nServer: firstlight\r\nContent-Type: " + response.content_type + "\r\n";
  if (length && response.status != 304) head += "Content-Length: " + std::to_string(*length) + "\r\n";
  if (chunked) head += "Transfer-Encoding: chunked\r\n";
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string error_body(int status, std::string_view message) {
  std::string escaped;  // our own words and the parser's: only quotes could need care
  for (const char c : message) escaped += (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) ? ' ' : c;
  const std::string_view type = status >= 500 ? "server_error" : "invalid_request_error";
  return R"({"error":{"message":")" + escaped + R"(","type":")" + std::string(type) + R"(","param":null,"code":null}})";
}

}  // namespace

// The answer of one request; lives on after its connection has moved on or is gone, and then does nothing.
class ConnectionExchange final : public Exchange, public std::enable_shared_from_this<ConnectionExchange> {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, bool keep_alive, bool chunks, bool head_only)
      : connection_(std::move(connection)),
        context_(connection_->context_),
        executor_(connection_->socket_.get_executor()),
        keep_alive_(keep_alive),
        chunks_(chunks),
        head_only_(head_only) {}

  void post(std::function<void()> work) override {
    if (!context_->is_over.load()) asio::post(executor_, std::move(work));
  }

  void add_header(std::string name, std::string value) override {
    headers_.emplace_back(std::move(name), std::move(value));
  }

  void expire_after(double seconds) override {
    if (connection_) connection_->expire_after(seconds);
  }

  void respond(HttpResponse response) override {
    if (!connection_ || streaming_) return;
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    std::string whole = response_head(response, keeps_alive(), response.body.size(), false);
    if (!head_only_) whole += response.body;
    connection_->write(whole);
    finish();
  }

  void begin_stream(std::string_view content_type) override {
    if (!connection_ || streaming_) return;
    streaming_ = true;
    if (!chunks_) keep_alive_ = false;
    HttpResponse response;
    response.content_type = content_type;
    response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    connection_->write(response_head(response, keeps_alive(), std::nullopt, chunks_));
  }

  void send(std::string piece) override {
    if (!connection_ || !streaming_ || piece.empty() || head_only_) return;
    if (connection_->pending_.size() > kMaxUnsentBytes) {
      connection_->close();
      return;
    }
    if (!chunks_) {
      connection_->write(piece);
      return;
    }
    char size[20];
    const auto end = std::to_chars(size, size + sizeof size, piece.size(), 16).ptr;
    std::string framed(size, end);
    framed += "\r\n" + piece + "\r\n";
    connection_->write(framed);
  }

  void end_stream() override {
    if (!connection_ || !streaming_) return;
    if (chunks_ && !head_only_) connection_->write("0\r\n\r\n");
    finish();
  }

  void on_end(std::function<void(ExchangeEnd)> callback) override {
    if (connection_) on_end_ = std::move(callback);
  }

  bool is_over() const override { return connection_ == nullptr; }

  // From the connection.
  void tell(ExchangeEnd end) {
    const auto callback = on_end_;  // a copy: it may end the exchange, and with it the callback
    if (callback) callback(end);
  }
  void detach() {
    connection_ = nullptr;
    on_end_ = nullptr;
  }
  bool keeps_alive() const { return keep_alive_ && !context_->draining.load(); }

 private:
  void finish() {
    const auto connection = connection_;
    const bool keep = keeps_alive();
    detach();
    if (!keep) connection->close_when_written_ = true;
    connection->finish_exchange();
  }

  std::shared_ptr<Connection> connection_;
  std::shared_ptr<ConnectionContext> context_;
  Tcp::socket::executor_type executor_;
  bool keep_alive_, chunks_, head_only_;
  bool streaming_ = false;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::function<void(ExchangeEnd)> on_end_;
};

Connection::Connection(Tcp::socket socket, std::shared_ptr<ConnectionContext> context)
    : context_(std::move(context)),
      socket_(std::move(socket)),
      phase_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()) {
  ++context_->num_open;
  context_->connections.add(1);
}

Connection::~Connection() {
  --context_->num_open;
  context_->connections.add(-1);
}

void Connection::start() {
  boost::system::error_code ignored;
  socket_.set_option(Tcp::no_delay(true), ignored);
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    self->enter(Phase::kIdle, self->context_->options.idle_timeout_s);
    self->read();
  });
}

void Connection::refuse() {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    self->read();
    self->fail(503, "too many connections");
  });
}

void Connection::end_idle() {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle && self->has_served_) self->close_when_sent();
  });
}

void Connection::drain() {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle || self->phase_ == Phase::kReceiving) self->close_when_sent();
  });
}

void Connection::abort() {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    if (const auto exchange = self->exchange_) exchange->tell(ExchangeEnd::kShutdown);
    if (self->phase_ != Phase::kClosed) self->close_after_writes(kLingerSeconds);
  });
}

void Connection::enter(Phase phase, double seconds) {
  phase_ = phase;
  const uint64_t number = ++phase_number_;
  phase_timer_.expires_after(std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6)));
  phase_timer_.async_wait([self = shared_from_this(), number](const boost::system::error_code& error) {
    if (!error && number == self->phase_number_) self->on_deadline();
  });
}

void Connection::expire_after(double seconds) {
  if (phase_ == Phase::kBusy) enter(Phase::kBusy, std::max(seconds, 0.0));
}

void Connection::on_deadline() {
  switch (phase_) {
    case Phase::kIdle:
      close_when_sent();
      return;
    case Phase::kClosing:
      close();
      return;
    case Phase::kReceiving:
      fail(408, "the request did not arrive in time");
      return;
    case Phase::kBusy:
      if (const auto exchange = exchange_) exchange->tell(ExchangeEnd::kTimedOut);
      if (phase_ == Phase::kBusy && exchange_) close();  // nobody answered
      return;
    case Phase::kClosed:
      return;
  }
}

void Connection::read() {
  if (reading_ || read_ended_ || phase_ == Phase::kClosed) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](const boost::system::error_code& error, size_t num_bytes) {
                            self->reading_ = false;
                            if (error) {
                              self->on_read_end();
                            } else {
                              self->on_read(num_bytes);
                            }
                          });
}

// The client hung up, closed its half or reset. Whoever still computes for it stops; what is being written goes out.
void Connection::on_read_end() {
  read_ended_ = true;
  if (phase_ == Phase::kClosed) return;  // the end is that of close() itself
  if (exchange_) {
    close();
  } else {
    close_when_sent();
  }
}

void Connection::on_read(size_t num_bytes) {
  switch (phase_) {
    case Phase::kClosing:
      num_discarded_ += num_bytes;
      if (num_discarded_ > kMaxDiscardedBytes) {
        close();
      } else {
        read();
      }
      return;
    case Phase::kBusy:
      received_.append(chunk_.data(), num_bytes);
      if (received_.size() < kMaxReadAhead) read();
      return;
    case Phase::kIdle:
    case Phase::kReceiving:
      received_.append(chunk_.data(), num_bytes);
      advance();
      return;
    case Phase::kClosed:
      return;
  }
}

// Reads on in what has been received, as far as that goes.
void Connection::advance() {
  if (received_.empty()) {
    read();
    return;
  }
  if (phase_ == Phase::kIdle) {
    parser_ = std::make_unique<HttpParser>(context_->options.limits);
    continue_sent_ = false;
    enter(Phase::kReceiving, context_->options.header_timeout_s);
  }
  const bool had_head = parser_->has_head();
  size_t num_taken = 0;
  const HttpParser::State state = parser_->feed(received_, num_taken);
  received_.erase(0, num_taken);
  switch (state) {
    case HttpParser::State::kFailed:
      fail(parser_->error_status(), parser_->error_message());
      return;
    case HttpParser::State::kReady:
      begin_exchange();
      return;
    case HttpParser::State::kNeedMore:
      if (parser_->has_head() && !had_head) enter(Phase::kReceiving, context_->options.body_timeout_s);
      if (parser_->wants_continue() && !continue_sent_) {
        continue_sent_ = true;
        write("HTTP/1.1 100 Continue\r\n\r\n");
      }
      read();
      return;
  }
}

void Connection::begin_exchange() {
  exchange_ = std::make_shared<ConnectionExchange>(shared_from_this(), parser_->keeps_alive(), parser_->allows_chunks(),
                                                   parser_->is_head_request());
  ++context_->num_busy;
  has_served_ = true;
  HttpRequest request = parser_->take();
  boost::system::error_code ignored;
  request.peer = socket_.remote_endpoint(ignored).address().to_string();
  parser_ = nullptr;
  enter(Phase::kBusy, context_->options.request_timeout_s);
  if (received_.size() < kMaxReadAhead) read();
  const auto exchange = exchange_;
  context_->handler(std::move(request), exchange);
}

// The answer is written or on its way.
void Connection::finish_exchange() {
  if (std::exchange(exchange_, nullptr)) --context_->num_busy;
  if (phase_ != Phase::kBusy) return;
  if (close_when_written_) {
    close_after_writes(context_->options.write_timeout_s);
    return;
  }
  enter(Phase::kIdle, context_->options.idle_timeout_s);
  // Posted: a client that sends many requests at once must not deepen the stack.
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle) self->advance();
  });
}

void Connection::fail(int status, std::string_view message) {
  if (phase_ == Phase::kClosed) return;
  if (context_->options.on_failure) context_->options.on_failure(status);
  HttpResponse response;
  response.status = status;
  response.body = error_body(status, message);
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  write(response_head(response, false, response.body.size(), false));
  write(response.body);
  close_after_writes(context_->options.write_timeout_s);
}

void Connection::close_after_writes(double seconds) {
  if (phase_ == Phase::kClosed) return;
  close_when_written_ = true;
  received_.clear();
  enter(Phase::kClosing, seconds);
  read();
  if (in_flight_.empty()) linger();
}

// Idle is who has been answered; the last answer may still be on its way.
void Connection::close_when_sent() {
  if (in_flight_.empty()) {
    close();
  } else {
    close_after_writes(context_->options.write_timeout_s);
  }
}

void Connection::linger() {
  if (read_ended_) {
    close();
    return;
  }
  boost::system::error_code ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  enter(Phase::kClosing, kLingerSeconds);
}

void Connection::write(std::string_view bytes) {
  if (phase_ == Phase::kClosed || bytes.empty()) return;
  pending_ += bytes;
  if (in_flight_.empty()) write_some();
}

void Connection::write_some() {
  if (num_written_ == in_flight_.size()) {
    in_flight_.swap(pending_);
    pending_.clear();
    num_written_ = 0;
    if (in_flight_.empty()) {
      if (close_when_written_ && phase_ == Phase::kClosing) linger();
      return;
    }
  }
  write_timer_.expires_after(std::chrono::microseconds(static_cast<int64_t>(context_->options.write_timeout_s * 1e6)));
  write_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && self->write_timer_.expiry() <= std::chrono::steady_clock::now()) self->close();
  });
  socket_.async_write_some(asio::buffer(in_flight_.data() + num_written_, in_flight_.size() - num_written_),
                           [self = shared_from_this()](const boost::system::error_code& error, size_t num_bytes) {
                             self->write_timer_.expires_at(asio::steady_timer::time_point::max());
                             if (error) {
                               self->close();
                               return;
                             }
                             self->num_written_ += num_bytes;
                             self->write_some();
                           });
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  ++phase_number_;
  boost::system::error_code ignored;
  socket_.close(ignored);
  phase_timer_.cancel();
  write_timer_.cancel();
  if (const auto exchange = std::exchange(exchange_, nullptr)) {
    --context_->num_busy;
    exchange->tell(ExchangeEnd::kGone);
    exchange->detach();
  }
}

}  // namespace firstlight::server
