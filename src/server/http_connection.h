// SPDX-License-Identifier: Apache-2.0
// One connection of http_server.cc: a reading loop that never ends before the client does, a writing loop, and one
// deadline per phase. Everything runs on the connection's strand. Includes Asio: for the two .cc files behind
// http_server.h only.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http_server.h"

namespace firstlight::server {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

// What all connections share.
struct ConnectionContext {
  HttpServerOptions options;
  HttpHandler handler;
  std::atomic<bool> draining{false};  // no further requests
  std::atomic<size_t> num_open{0};
  std::atomic<size_t> num_busy{0};  // of these, with a request that runs
  Gauge connections;
  // Shared, since exchanges may outlive the server: work they post then goes nowhere (`is_over`).
  std::shared_ptr<asio::io_context> io;
  std::atomic<bool> is_over{false};
};

class ConnectionExchange;

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  // `socket` runs on a strand of its own.
  Connection(Tcp::socket socket, std::shared_ptr<ConnectionContext> context);
  ~Connection();

  void start();
  void refuse();    // one connection too many: 503 and an end
  void end_idle();  // ends if it has served and nothing more has begun to arrive
  void drain();     // ends when what runs has been answered
  void abort();     // tells the running exchange (kShutdown) and ends

 private:
  friend class ConnectionExchange;
  enum class Phase : uint8_t { kIdle, kReceiving, kBusy, kClosing, kClosed };

  void read();
  void on_read(size_t num_bytes);
  void on_read_end();
  void advance();
  void begin_exchange();
  void finish_exchange();
  void write(std::string_view bytes);
  void write_some();
  void fail(int status, std::string_view message);
  void close_after_writes(double seconds);  // at most this long
  void close_when_sent();
  void linger();
  void close();
  void enter(Phase phase, double seconds);
  void on_deadline();
  void expire_after(double seconds);

  std::shared_ptr<ConnectionContext> context_;  // before what its io_context must outlive
  Tcp::socket socket_;
  asio::steady_timer phase_timer_, write_timer_;
  uint64_t phase_number_ = 0;  // tells a timer's callback whether its phase is over
  Phase phase_ = Phase::kIdle;
  bool reading_ = false;
  bool read_ended_ = false;
  bool continue_sent_ = false;
  bool has_served_ = false;  // a request was whole
  bool close_when_written_ = false;
  size_t num_discarded_ = 0;
  std::array<char, 16384> chunk_;
  std::string received_;             // read, not parsed yet
  std::string in_flight_, pending_;  // being written; to be written next
  size_t num_written_ = 0;           // of in_flight_
  std::unique_ptr<HttpParser> parser_;
  std::shared_ptr<ConnectionExchange> exchange_;
};

}  // namespace firstlight::server
