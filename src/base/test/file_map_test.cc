// SPDX-License-Identifier: Apache-2.0
#include "base/file_map.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

namespace firstlight {
namespace {

namespace fs = std::filesystem;

class FileMapTest : public testing::Test {
 protected:
  FileMapTest() { fs::create_directories(dir_); }
  ~FileMapTest() override { fs::remove_all(dir_); }
  const fs::path dir_ = fs::path(testing::TempDir()) / ("file_map." + std::to_string(::getpid()));
};

TEST_F(FileMapTest, RoundTrip) {
  const std::string path = dir_ / "a b.txt";
  ASSERT_TRUE(write_file(path, "hello").ok());
  EXPECT_EQ(read_text_file(path).value(), "hello");
  EXPECT_EQ(read_text_file(path, 4).code(), StatusCode::kInvalidData);
}

TEST_F(FileMapTest, EmptyFileIsAnEmptySpan) {
  ASSERT_TRUE(write_file(dir_ / "empty", "").ok());
  EXPECT_TRUE(FileMap::open(dir_ / "empty").value().bytes().empty());
}

TEST_F(FileMapTest, DanglingLinkNamesItsTarget) {
  fs::create_symlink("gone.bin", dir_ / "link");
  const auto map = FileMap::open(dir_ / "link");
  ASSERT_EQ(map.code(), StatusCode::kNotFound);
  EXPECT_NE(map.status().message().find("gone.bin"), std::string::npos);
}

TEST_F(FileMapTest, DirectoryIsRefused) { EXPECT_EQ(FileMap::open(dir_).code(), StatusCode::kInvalidData); }

TEST_F(FileMapTest, WritingFollowsALink) {
  ASSERT_TRUE(write_file(dir_ / "real", "old").ok());
  fs::create_symlink("real", dir_ / "link");
  ASSERT_TRUE(write_file(dir_ / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(dir_ / "link"));
  EXPECT_EQ(read_text_file(dir_ / "real").value(), "new");
}

TEST_F(FileMapTest, WhatIsNoFileIsNotReplaced) {
  const std::string pipe = dir_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("pipe", dir_ / "link");
  fs::create_symlink("gone", dir_ / "dangling");
  for (const fs::path& path : {fs::path(pipe), dir_ / "link", dir_ / "dangling", dir_}) {
    const Status status = write_file(path, "x");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path;
    EXPECT_NE(status.message().find(path.string()), std::string::npos) << status.message();
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_FALSE(fs::exists(pipe + ".partial"));
}

TEST_F(FileMapTest, WritingNowhereSaysWhy) {
  const Status status = write_file(dir_ / "no" / "file", "x");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("No such file"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace firstlight
