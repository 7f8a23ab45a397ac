// SPDX-License-Identifier: Apache-2.0
// Children with closed, full and abandoned standard streams.
#include "cli/streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>

namespace firstlight::cli {
namespace {

// The exit status of a child that runs `body`.
int status_of(const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int state = 0;
  ::waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

int print_to(int fd) {
  ::dup2(fd, STDOUT_FILENO);
  std::printf("a line\n");
  const Status arrived = flush_output();
  if (!arrived.ok()) return arrived.code() == StatusCode::kInvalidArgument ? 2 : 3;
  return 0;
}

TEST(StreamsTest, AFullDeviceIsAnErrorAndAnAbandonedPipeIsNone) {
  EXPECT_EQ(status_of([] { return print_to(::open("/dev/full", O_WRONLY)); }), 2);
  EXPECT_EQ(status_of([] { return print_to(::open("/dev/null", O_WRONLY)); }), 0);
  EXPECT_EQ(status_of([] {
              std::signal(SIGPIPE, SIG_IGN);
              int ends[2];
              if (::pipe(ends) != 0) return 9;
              ::close(ends[0]);
              return print_to(ends[1]);
            }),
            0);
}

TEST(StreamsTest, WhatSteersATerminalIsWrittenOut) {
  EXPECT_EQ(printable("a\x1b[31mb\x7f\r\n\tc"), "a\\x1b[31mb\\x7f\\x0d\n\tc");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m \xc2\xa0 \xc3\xa9"),
            "\\x9b31m \xc2\xa0 \xc3\xa9");
}

TEST(StreamsTest, FilesOpenedLaterDoNotTakeTheNumberOfAClosedStream) {
  EXPECT_EQ(status_of([] {
              ::close(STDIN_FILENO);
              ::close(STDOUT_FILENO);
              ::close(STDERR_FILENO);
              reserve_streams();
              if (::open("/dev/zero", O_RDWR) <= STDERR_FILENO) return 1;
              std::printf("lost\n");
              return flush_output().ok() ? 2 : 0;  // nothing arrived, and that is told
            }),
            0);
}

}  // namespace
}  // namespace firstlight::cli
