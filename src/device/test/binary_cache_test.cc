// SPDX-License-Identifier: Apache-2.0
#include "device/binary_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace firstlight::device {
namespace {

TEST(BinaryCache, KeepsBytesUnderKeys) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("firstlight-binary-cache-" + std::to_string(getpid())) / "deep";
  const BinaryCache cache(folder, ".bin");
  EXPECT_FALSE(cache.get("a").has_value());
  const std::string bytes("\0x\xff\n", 4);
  ASSERT_TRUE(cache.put("a", bytes).ok());
  ASSERT_TRUE(cache.put("b", "").ok());
  EXPECT_EQ(cache.get("a"), bytes);
  EXPECT_EQ(cache.get("b"), "");
  ASSERT_TRUE(cache.put("a", "new").ok());
  EXPECT_EQ(cache.get("a"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);  // no parts are left
  std::filesystem::remove_all(folder.parent_path());
}

TEST(BinaryCache, WithoutAFolderNothingIsKept) {
  const BinaryCache cache("", ".bin");
  EXPECT_TRUE(cache.put("a", "x").ok());
  EXPECT_FALSE(cache.get("a").has_value());
  EXPECT_EQ(BinaryCache("/proc/no/such", ".bin").put("a", "x").code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace firstlight::device
