// SPDX-License-Identifier: Apache-2.0
// What OpenCL devices there are and what each says of itself, as target data.
#pragma once

#include <memory>
#include <vector>

#include "device/opencl/api.h"
#include "target/device_target.h"

namespace firstlight::device {

struct OpenclEntry {
  cl_device_id id = nullptr;
  target::DeviceTarget target;
};

// Of all platforms, in their order. Errors: kUnsupported where there is no platform or no device.
Result<std::vector<OpenclEntry>> find_opencl_devices(const OpenclApi& api);

}  // namespace firstlight::device
