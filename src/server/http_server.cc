// SPDX-License-Identifier: Apache-2.0
#include "server/http_server.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "server/http_connection.h"

namespace firstlight::server {
namespace {

// Beyond this many over the limit a connection is closed without a word.
constexpr size_t kMaxRefusing = 64;

constexpr int kListenBacklog = 1024;

}  // namespace

struct HttpServer::Core : std::enable_shared_from_this<Core> {
  explicit Core(const HttpServerOptions& options)
      : io(std::make_shared<asio::io_context>(options.num_threads)),
        strand(asio::make_strand(*io)),
        acceptor(strand),
        stop_event(strand),
        timer(strand) {
    context->options = options;
    context->io = io;
  }
  ~Core() {
    if (stop_fd >= 0) ::close(stop_fd);
  }

  std::shared_ptr<asio::io_context> io;
  asio::strand<asio::io_context::executor_type> strand;  // of everything below but the connections
  Tcp::acceptor acceptor;
  asio::posix::stream_descriptor stop_event;
  asio::steady_timer timer;
  int stop_fd = -1;
  int port = 0;
  int num_stops = 0;
  uint64_t stop_count = 0;  // what the event read
  std::shared_ptr<ConnectionContext> context = std::make_shared<ConnectionContext>();
  std::list<std::weak_ptr<Connection>> connections;
  const Log* log = nullptr;
  std::vector<std::jthread> threads;
  std::mutex mutex;
  std::condition_variable stop_seen;
  bool stopping = false;

  void run();
  Status bind();
  void accept();
  void on_accepted(Tcp::socket socket);
  void await_stop();
  void on_stop();
  void await_drained();
  void end_quiet();
  void end_all();
  void for_each_connection(void (Connection::*action)());
};

// The libraries throw where memory runs out; that may cost a connection, never the process.
void HttpServer::Core::run() {
  while (true) {
    try {
      io->run();
      return;
    } catch (const std::exception& error) {
      log_error(log, std::string("network thread: ") + error.what());
    }
  }
}

Status HttpServer::Core::bind() {
  const std::string& host = context->options.host;
  boost::system::error_code error;
  Tcp::resolver resolver(*io);
  const auto found = resolver.resolve(host, std::to_string(context->options.port), Tcp::resolver::passive, error);
  if (error || found.empty()) return invalid_argument("host '" + host + "': " + error.message());
  const Tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kListenBacklog, error);
  if (error) {
    return invalid_argument("port " + std::to_string(context->options.port) + " of " + host + ": " + error.message());
  }
  port = acceptor.local_endpoint(error).port();
  stop_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int copy = stop_fd < 0 ? -1 : ::dup(stop_fd);
  if (copy < 0) return unavailable("no file descriptor left for the server's stop event");
  stop_event.assign(copy, error);
  return ok_status();
}

void HttpServer::Core::accept() {
  acceptor.async_accept(
      asio::make_strand(*io), [self = shared_from_this()](const boost::system::error_code& error, Tcp::socket socket) {
        if (!self->acceptor.is_open()) return;
        if (!error) {
          self->on_accepted(std::move(socket));
          self->accept();
          return;
        }
        log_warn(self->log, "accept: " + error.message());  // no descriptors left, most likely: others must end first
        self->timer.expires_after(std::chrono::milliseconds(100));
        self->timer.async_wait([self](const boost::system::error_code& cancelled) {
          if (!cancelled && self->acceptor.is_open()) self->accept();
        });
      });
}

void HttpServer::Core::on_accepted(Tcp::socket socket) {
  const size_t num_open = context->num_open.load();
  const size_t limit = context->options.max_connections;
  if (num_open >= limit + kMaxRefusing) return;  // closes it
  const auto connection = std::make_shared<Connection>(std::move(socket), context);
  connections.remove_if([](const auto& other) { return other.expired(); });
  connections.push_back(connection);
  if (num_open >= limit) {
    connection->refuse();
  } else {
    connection->start();
  }
}

void HttpServer::Core::await_stop() {
  stop_event.async_read_some(asio::buffer(&stop_count, sizeof stop_count),
                             [self = shared_from_this()](const boost::system::error_code& error, size_t) {
                               if (!error) self->on_stop();
                             });
}

void HttpServer::Core::on_stop() {
  num_stops += static_cast<int>(std::min<uint64_t>(stop_count, 2));
  if (context->draining.exchange(true)) {
    end_all();
    return;
  }
  {
    const std::scoped_lock lock(mutex);
    stopping = true;
  }
  stop_seen.notify_all();
  if (context->options.on_drain) context->options.on_drain();
  for_each_connection(&Connection::end_idle);
  timer.expires_after(
      std::chrono::microseconds(static_cast<int64_t>(num_stops > 1 ? 0 : context->options.drain_timeout_s * 1e6)));
  timer.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->end_all();
  });
  await_stop();
  await_drained();
}

// Once no request runs, ends what is left; once the last connection is gone, the waits of this object, and with them
// the threads run out of work.
void HttpServer::Core::await_drained() {
  if (context->num_busy.load() == 0 && acceptor.is_open()) end_quiet();
  if (context->num_open.load() == 0) {
    boost::system::error_code ignored;
    timer.cancel();
    stop_event.close(ignored);
    return;
  }
  const auto pause = std::make_shared<asio::steady_timer>(strand, std::chrono::milliseconds(10));
  pause->async_wait([self = shared_from_this(), pause](const boost::system::error_code&) { self->await_drained(); });
}

void HttpServer::Core::end_quiet() {
  boost::system::error_code ignored;
  acceptor.close(ignored);
  for_each_connection(&Connection::drain);
}

void HttpServer::Core::end_all() {
  boost::system::error_code ignored;
  acceptor.close(ignored);
  for_each_connection(&Connection::abort);
}

void HttpServer::Core::for_each_connection(void (Connection::*action)()) {
  for (const auto& weak : connections) {
    if (const auto connection = weak.lock()) ((*connection).*action)();
  }
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, HttpHandler handler,
                                                      Gauge connections, const Log* log) {
  const auto core = std::make_shared<Core>(options);
  core->context->handler = std::move(handler);
  core->context->connections = connections;
  core->log = log;
  FL_TRY(core->bind());
  asio::post(core->strand, [core] {
    core->await_stop();
    core->accept();
  });
  for (int i = 0; i < options.num_threads; ++i) core->threads.emplace_back([raw = core.get()] { raw->run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(core));
}

HttpServer::HttpServer(std::shared_ptr<Core> core) : core_(std::move(core)) {}

HttpServer::~HttpServer() {
  stop();
  wait();
}

int HttpServer::port() const { return core_->port; }

void HttpServer::stop() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(core_->stop_fd, &one, sizeof one);  // full means asked for already
}

void HttpServer::wait_for_stop() {
  std::unique_lock lock(core_->mutex);
  core_->stop_seen.wait(lock, [this] { return core_->stopping; });
}

void HttpServer::wait() {
  for (auto& thread : core_->threads) {
    if (thread.joinable()) thread.join();
  }
  core_->context->is_over = true;
}

}  // namespace firstlight::server
