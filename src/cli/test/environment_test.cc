// SPDX-License-Identifier: Apache-2.0
#include "cli/environment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace firstlight::cli {
namespace {

namespace fs = std::filesystem;

class EnvironmentTest : public testing::Test {
 protected:
  EnvironmentTest() : root_(fs::path(testing::TempDir()) / ("environment-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    for (const char* name : {"FIRSTLIGHT_CACHE", "XDG_CACHE_HOME", "FIRSTLIGHT_CXX", "CXX"}) ::unsetenv(name);
    ::setenv("HOME", root_.c_str(), 1);
  }
  ~EnvironmentTest() override { fs::remove_all(root_); }
  const fs::path root_;
};

TEST_F(EnvironmentTest, TheCacheIsWhereTheUserKeepsSuchThings) {
  EXPECT_EQ(cache_folder().value(), root_ / ".cache" / "firstlight");
  ::setenv("XDG_CACHE_HOME", (root_ / "xdg").c_str(), 1);
  EXPECT_EQ(cache_folder().value(), root_ / "xdg" / "firstlight");
  ::setenv("FIRSTLIGHT_CACHE", (root_ / "own").c_str(), 1);
  EXPECT_EQ(cache_folder().value(), root_ / "own");
  EXPECT_TRUE(fs::is_directory(root_ / "own"));
}

TEST_F(EnvironmentTest, WithoutAHomeNothingIsKept) {
  ::setenv("HOME", "/proc/nowhere", 1);
  EXPECT_TRUE(cache_folder().value().empty());
  ::unsetenv("HOME");
  EXPECT_TRUE(cache_folder().value().empty());
}

TEST_F(EnvironmentTest, ANamedFolderThatOthersMayWriteIsRefused) {
  ASSERT_EQ(::chmod(root_.c_str(), 0777), 0);
  ::setenv("FIRSTLIGHT_CACHE", root_.c_str(), 1);
  EXPECT_NE(cache_folder().status().message().find("writable by others"), std::string::npos);
}

TEST_F(EnvironmentTest, TheCompilerOfTheUser) {
  EXPECT_EQ(host_compiler(), "");
  ::setenv("CXX", "clang++", 1);
  EXPECT_EQ(host_compiler(), "clang++");
  ::setenv("FIRSTLIGHT_CXX", "g++", 1);
  EXPECT_EQ(host_compiler(), "g++");
}

}  // namespace
}  // namespace firstlight::cli
