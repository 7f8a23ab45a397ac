// SPDX-License-Identifier: Apache-2.0
// What a device reaches: copies each way, and a product in float32. Takes about a second; run on request, on a machine
// that does little else.
#pragma once

#include "device/device.h"

namespace firstlight::device {

struct DeviceRoof {
  double copy_in_gbps = 0;   // host to device, 10^9 bytes per second
  double copy_out_gbps = 0;  // device to host
  double copy_gbps = 0;      // within the device, bytes read and bytes written
  double f32_tflops = 0;     // the dialect's own product, no vendor library
};

// Errors: those of the device; kInternal when the product is wrong.
Result<DeviceRoof> measure_device(Device& device);

}  // namespace firstlight::device
