// SPDX-License-Identifier: Apache-2.0
#include "device/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "device/open.h"

namespace firstlight::device {
namespace {

namespace fs = std::filesystem;

class PrivateFolderTest : public testing::Test {
 protected:
  PrivateFolderTest() : root_(fs::path(testing::TempDir()) / ("private-folder-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
  }
  ~PrivateFolderTest() override { fs::remove_all(root_); }
  const fs::path root_;
};

TEST_F(PrivateFolderTest, IsMadeForThisUserAlone) {
  ASSERT_TRUE(make_private_folder(root_ / "a" / "b").ok());
  struct stat info {};
  ASSERT_EQ(::stat((root_ / "a" / "b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
  EXPECT_TRUE(make_private_folder(root_ / "a" / "b").ok());
}

TEST_F(PrivateFolderTest, OneThatOthersMayWriteIsRefused) {
  ASSERT_TRUE(make_private_folder(root_).ok());
  ASSERT_EQ(::chmod(root_.c_str(), 0777), 0);
  EXPECT_NE(make_private_folder(root_).message().find("writable by others"), std::string::npos);
  const auto device = open_device(target::DeviceKind::kSimt, {.cache_dir = root_});
  ASSERT_FALSE(device.ok());  // modules are loaded from there
  EXPECT_EQ(device.status().code(), StatusCode::kUnavailable);
}

TEST_F(PrivateFolderTest, AFileInItsPlaceIsRefused) {
  std::ofstream(root_) << "x";
  EXPECT_NE(make_private_folder(root_).message().find("can not be made"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::device
