// SPDX-License-Identifier: Apache-2.0
#include "cli/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace firstlight::cli {

void reserve_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is given out, and those below are taken by now.
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF && ::open("/dev/null", O_RDONLY) < 0) return;
  }
}

Status flush_output() {
  errno = 0;
  const bool arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const int reason = errno;
  if (arrived) return ok_status();
  pollfd reader = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (reason == EPIPE || (::poll(&reader, 1, 0) > 0 && (reader.revents & POLLERR) != 0)) return ok_status();
  return invalid_argument(std::string("stdout: cannot write") +
                          (reason != 0 ? std::string(": ") + std::strerror(reason) : ""));
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool steers = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    // U+0080 to U+009F, in UTF-8
    const bool pair = byte == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
    if (!steers && !pair) {
      out += text[i];
      continue;
    }
    char hex[8];
    std::snprintf(hex, sizeof(hex), "\\x%02x", steers ? byte : static_cast<unsigned char>(text[++i]));
    out += hex;
  }
  return out;
}

}  // namespace firstlight::cli
