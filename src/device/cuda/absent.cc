// SPDX-License-Identifier: Apache-2.0
// What stands for the cuda device, or with FL_MUSA for the musa device, in a build without the vendor's headers.
#include "device/cuda/cuda_device.h"

#ifdef FL_MUSA
#define FL_VENDOR musa
#else
#define FL_VENDOR cuda
#endif

namespace firstlight::device::FL_VENDOR {
namespace {

#ifdef FL_MUSA
constexpr const char* kAbsent = "this build has no MUSA: musa.h and mtrtc.h were not there";
#else
constexpr const char* kAbsent = "this build has no CUDA: cuda.h and nvrtc.h were not there";
#endif

}  // namespace

std::vector<target::DeviceTarget> list(std::string& absent) {
  absent = kAbsent;
  return {};
}

Result<std::unique_ptr<Device>> open(const OpenOptions&) { return unsupported(kAbsent); }

Status compile_only(const std::string&, const std::string&, const std::string&) { return unsupported(kAbsent); }

}  // namespace firstlight::device::FL_VENDOR
