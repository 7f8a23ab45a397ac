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

}  // namespace firstlight::cli
