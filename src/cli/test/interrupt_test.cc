// SPDX-License-Identifier: Apache-2.0
// Children that are interrupted while they fill a directory, and what they leave.
#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace firstlight::cli {
namespace {

namespace fs = std::filesystem;

class InterruptTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("firstlight-interrupt-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static void fill(const std::string& directory) {
    fs::create_directories(directory);
    std::ofstream(directory + "/model.safetensors.partial") << "half";
  }

  // How a child that runs `body` ends.
  static int state_of(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      body();
      ::_exit(7);
    }
    int state = 0;
    ::waitpid(child, &state, 0);
    return state;
  }

  static void interrupted(const std::string& directory, int number) {
    const RemoveOnInterrupt guard(directory);
    fill(directory);
    ::kill(::getpid(), number);
    ::sleep(20);  // the signal comes first
  }

  fs::path folder_;
};

TEST_F(InterruptTest, SignalsRemoveWhatWasWrittenAndEndTheProgram) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const int state = state_of([&] { interrupted(path("out"), number); });
    EXPECT_TRUE(WIFSIGNALED(state) && WTERMSIG(state) == number) << state;
    EXPECT_FALSE(fs::exists(path("out")));
  }
}

TEST_F(InterruptTest, AnEmptyDirectoryThatWasThereStays) {
  fs::create_directories(path("out"));
  const int state = state_of([&] { interrupted(path("out"), SIGTERM); });
  EXPECT_TRUE(WIFSIGNALED(state)) << state;
  EXPECT_TRUE(fs::is_empty(path("out")));
}

TEST_F(InterruptTest, WhatWasThereBeforeIsLeftAlone) {
  fs::create_directories(path("out"));
  std::ofstream(path("out/mine")) << "kept";
  const int state = state_of([&] { interrupted(path("out"), SIGTERM); });
  EXPECT_TRUE(WIFSIGNALED(state)) << state;
  EXPECT_TRUE(fs::exists(path("out/mine")));
}

TEST_F(InterruptTest, IgnoredSignalsStayIgnored) {
  const int state = state_of([&] {
    std::signal(SIGHUP, SIG_IGN);
    const RemoveOnInterrupt guard(path("out"));
    fill(path("out"));
    ::kill(::getpid(), SIGHUP);
    ::usleep(50000);
    ::_exit(0);
  });
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << state;
  EXPECT_TRUE(fs::exists(path("out/model.safetensors.partial")));
}

TEST_F(InterruptTest, AfterwardsSignalsDoWhatTheyDidBefore) {
  const int state = state_of([&] {
    {
      const RemoveOnInterrupt guard(path("out"));
      fill(path("out"));
    }
    ::kill(::getpid(), SIGTERM);
    ::sleep(20);
  });
  EXPECT_TRUE(WIFSIGNALED(state) && WTERMSIG(state) == SIGTERM) << state;
  EXPECT_TRUE(fs::exists(path("out/model.safetensors.partial")));
}

}  // namespace
}  // namespace firstlight::cli
