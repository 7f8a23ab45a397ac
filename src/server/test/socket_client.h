// SPDX-License-Identifier: Apache-2.0
// A client of plain POSIX sockets for the server's tests, so that it shares nothing with the server: it can be slow,
// rude and half-closed.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace firstlight::server::fake {

class SocketClient {
 public:
  // `most_unread`: bytes that may wait to be read, roughly; 0: as the system has it.
  explicit SocketClient(int port, int most_unread = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (most_unread > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &most_unread, sizeof most_unread);
    const timeval limit{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  SocketClient(SocketClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_), buffer_(std::move(other.buffer_)) {}
  ~SocketClient() { close(); }

  bool is_connected() const { return connected_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  bool post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return send("POST " + path + " HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n" + headers +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  bool get(const std::string& path) { return send("GET " + path + " HTTP/1.1\r\nHost: t\r\n\r\n"); }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {  // an end by RST
    const linger hard{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }

  // Until `mark` has been read; what came before it and the mark. Empty when the connection ended first.
  std::string read_until(std::string_view mark) {
    while (true) {
      if (const size_t at = buffer_.find(mark); at != std::string::npos) {
        std::string text = buffer_.substr(0, at + mark.size());
        buffer_.erase(0, at + mark.size());
        return text;
      }
      if (!fill()) return "";
    }
  }
  // Everything up to the end of the connection.
  std::string read_all() {
    while (fill()) {
    }
    return std::exchange(buffer_, "");
  }

  struct Answer {
    int status = 0;  // 0: none came
    std::string head, body;
  };
  // One answer with Content-Length or in chunks.
  Answer read_answer() {
    Answer answer;
    answer.head = read_until("\r\n\r\n");
    if (answer.head.size() < 12) return {};
    answer.status = std::atoi(answer.head.c_str() + 9);
    if (answer.status == 100) return answer;
    if (answer.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      while (true) {
        const size_t size = std::strtoul(read_until("\r\n").c_str(), nullptr, 16);
        const std::string chunk = read_bytes(size + 2);
        if (size == 0 || chunk.empty()) return answer;
        answer.body += chunk.substr(0, size);
      }
    }
    const size_t at = answer.head.find("Content-Length: ");
    if (at == std::string::npos) {
      answer.body = read_all();
    } else {
      answer.body = read_bytes(std::strtoul(answer.head.c_str() + at + 16, nullptr, 10));
    }
    return answer;
  }

 private:
  std::string read_bytes(size_t count) {
    while (buffer_.size() < count) {
      if (!fill()) return "";
    }
    std::string text = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return text;
  }
  bool fill() {
    char bytes[16384];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  int fd_ = -1;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace firstlight::server::fake
