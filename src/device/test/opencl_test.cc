// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "device/open.h"

namespace firstlight::device {
namespace {

TEST(Opencl, OpensAtEveryWidthAndIsHealthy) {
  for (const int width : {32, 1, 64, 128}) {
    auto device = open_device(target::DeviceKind::kOpencl, {.warp_width = width});
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    EXPECT_EQ((*device)->target().warp_width, width);
  }
}

}  // namespace
}  // namespace firstlight::device
