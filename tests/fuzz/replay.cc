// SPDX-License-Identifier: Apache-2.0
// The replay of one fuzz target in the ordinary test run: the seeds of its corpus, then a fixed number of mutations of
// them under a time limit. An input that ends the process is left in the file FL_FUZZ_CRASH before the process goes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "mutate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace firstlight::fuzz {
namespace {

constexpr int kMutations = 20000;
constexpr auto kBudget = std::chrono::seconds(3);
constexpr unsigned kHangSeconds = 20;                  // for one input
constexpr rlim_t kMemoryLimitBytes = rlim_t{4} << 30;  // an unchecked length shows as a failed allocation

const Bytes* current = nullptr;

// Async-signal-safe: system calls only.
void keep_current_input(int signal_number) {
  const int fd = ::open(FL_FUZZ_CRASH, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && current != nullptr) {
    [[maybe_unused]] const ssize_t written = ::write(fd, current->data(), current->size());
  }
  constexpr char kMessage[] = "replay: the input is in " FL_FUZZ_CRASH "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

void guard() {
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM}) ::signal(number, keep_current_input);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these reserve terabytes of address space
  const rlimit limit{kMemoryLimitBytes, kMemoryLimitBytes};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
}

void run_one(const Bytes& bytes) {
  current = &bytes;
  ::alarm(kHangSeconds);
  // A buffer of exactly this size, so that a sanitizer sees a read past the end.
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
  ::alarm(0);
  current = nullptr;
}

std::vector<Bytes> seeds() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(FL_FUZZ_CORPUS)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());  // the order of a directory is not the same everywhere
  std::vector<Bytes> result;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    result.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return result;
}

TEST(FuzzReplay, SeedsAndMutations) {
  ASSERT_TRUE(std::filesystem::is_directory(FL_FUZZ_CORPUS)) << FL_FUZZ_CORPUS ": no corpus, a few small seeds wanted";
  const std::vector<Bytes> corpus = seeds();
  ASSERT_FALSE(corpus.empty()) << FL_FUZZ_CORPUS ": empty";
  guard();
  run_one({});
  for (const Bytes& seed : corpus) run_one(seed);
  for (const Bytes& seed : corpus) {  // every short prefix, then a sample of the longer ones
    for (size_t size = 0; size < seed.size(); size += 1 + size / 64) {
      run_one(Bytes(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(size)));
    }
  }
  Random random(20260801);
  const auto end = std::chrono::steady_clock::now() + kBudget;
  int done = 0;
  for (; done < kMutations && std::chrono::steady_clock::now() < end; ++done) {
    run_one(mutate(corpus[random.below(corpus.size())], corpus[random.below(corpus.size())], random));
  }
  RecordProperty("mutations", done);
  std::printf("%zu seeds, %d mutations\n", corpus.size(), done);
  EXPECT_GT(done, 0);
}

}  // namespace
}  // namespace firstlight::fuzz
