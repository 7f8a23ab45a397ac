// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

namespace firstlight::cli {
namespace {

namespace fs = std::filesystem;

// Those of the three that would end the program.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) sigaddset(&set, number);
  }
  return set;
}

}  // namespace

RemoveOnInterrupt::RemoveOnInterrupt(std::string directory) : directory_(std::move(directory)) {
  std::error_code error;
  existed_ = fs::exists(directory_, error);
  if (error || (existed_ && (!fs::is_directory(directory_, error) || !fs::is_empty(directory_, error)))) return;
  const sigset_t set = ending_signals();
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || stop_ < 0) return;
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::thread([this] { watch(signals_, stop_); });
}

RemoveOnInterrupt::~RemoveOnInterrupt() {
  if (watcher_.joinable()) {
    const uint64_t one = 1;
    if (::write(stop_, &one, sizeof(one)) == sizeof(one)) watcher_.join();
    const sigset_t set = ending_signals();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
  for (const int fd : {signals_, stop_}) {
    if (fd >= 0) ::close(fd);
  }
}

void RemoveOnInterrupt::watch(int signals, int stop) const {
  pollfd both[] = {{.fd = signals, .events = POLLIN, .revents = 0}, {.fd = stop, .events = POLLIN, .revents = 0}};
  while (::poll(both, 2, -1) < 0) continue;
  signalfd_siginfo info{};
  if (both[0].revents == 0 || ::read(signals, &info, sizeof(info)) != sizeof(info)) return;
  remove();
  const int number = static_cast<int>(info.ssi_signo);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(number);
}

void RemoveOnInterrupt::remove() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, error)) fs::remove(entry.path(), error);
  if (!existed_) fs::remove(directory_, error);
}

}  // namespace firstlight::cli
