// SPDX-License-Identifier: Apache-2.0
// What stands for the opencl device in a build without OpenCL's headers.
#include "device/opencl/opencl_device.h"

namespace firstlight::device {
namespace {

constexpr const char* kAbsent = "this build has no OpenCL: CL/cl.h was not there (package opencl-headers)";

}  // namespace

std::vector<target::DeviceTarget> list_opencl(std::string& absent) {
  absent = kAbsent;
  return {};
}

Result<std::unique_ptr<Device>> open_opencl(const OpenOptions&) { return unsupported(kAbsent); }

}  // namespace firstlight::device
