// SPDX-License-Identifier: Apache-2.0
// Devices of OpenCL drivers, 1.2 and later, of any vendor. Builds without OpenCL's headers have absent.cc in the place
// of this folder's other files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/open.h"

namespace firstlight::device {

// Empty with the reason in `absent` where there is none.
std::vector<target::DeviceTarget> list_opencl(std::string& absent);

// Where sub-groups do not pass the probe, warps are emulated instead. Errors: kUnsupported.
Result<std::unique_ptr<Device>> open_opencl(const OpenOptions& options);

}  // namespace firstlight::device
