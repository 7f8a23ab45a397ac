// SPDX-License-Identifier: Apache-2.0
#include "device/measure_device.h"

#include <gtest/gtest.h>

#include "device/open.h"

namespace firstlight::device {
namespace {

TEST(MeasureDevice, FindsSomethingPlausible) {
  auto device = open_device(target::DeviceKind::kSimt, {.memory_limit_bytes = int64_t{64} << 20});
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const auto roof = measure_device(**device);
  ASSERT_TRUE(roof.ok()) << roof.status().to_string();
  for (const double gbps : {roof->copy_in_gbps, roof->copy_out_gbps, roof->copy_gbps}) {
    EXPECT_GT(gbps, 0.01);
    EXPECT_LT(gbps, 10000);
  }
  EXPECT_GT(roof->f32_tflops, 1e-6);
  EXPECT_LT(roof->f32_tflops, 1000);
  EXPECT_EQ((*device)->bytes_in_use(), 0);
}

TEST(MeasureDevice, ALostDeviceIsSaid) {
  auto device = open_device(target::DeviceKind::kSimt, {});
  ASSERT_TRUE(device.ok());
  (*device)->inject(Fault::kLost);
  EXPECT_TRUE(is_device_lost(measure_device(**device).status()));
}

}  // namespace
}  // namespace firstlight::device
