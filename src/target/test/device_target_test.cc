// SPDX-License-Identifier: Apache-2.0
#include "target/device_target.h"

#include <gtest/gtest.h>

namespace firstlight::target {
namespace {

TEST(DeviceTarget, NamesOfKindsGoBothWays) {
  for (const DeviceKind kind : {DeviceKind::kSimt, DeviceKind::kOpencl, DeviceKind::kCuda, DeviceKind::kMusa}) {
    const auto parsed = parse_device_kind(device_kind_name(kind));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, kind);
  }
  const auto unknown = parse_device_kind("vulkan");
  ASSERT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().message().find("vulkan"), std::string::npos);
  EXPECT_NE(unknown.status().message().find("opencl"), std::string::npos);
}

}  // namespace
}  // namespace firstlight::target
