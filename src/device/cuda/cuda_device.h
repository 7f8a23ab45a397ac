// SPDX-License-Identifier: Apache-2.0
// Devices of CUDA and of MUSA, which are the same sources built twice (vendor.h). A build without a vendor's headers
// has absent.cc for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/open.h"

namespace firstlight::device::cuda {
// Empty with the reason in `absent` where there is none.
std::vector<target::DeviceTarget> list(std::string& absent);
Result<std::unique_ptr<Device>> open(const OpenOptions& options);
// Runs the vendor's compiler over an assembled source and drops the binary. Errors: kInvalidData, kUnsupported.
Status compile_only(const std::string& name, const std::string& text, const std::string& architecture);
}  // namespace firstlight::device::cuda

namespace firstlight::device::musa {
std::vector<target::DeviceTarget> list(std::string& absent);
Result<std::unique_ptr<Device>> open(const OpenOptions& options);
// Runs the vendor's compiler over an assembled source and drops the binary. Errors: kInvalidData, kUnsupported.
Status compile_only(const std::string& name, const std::string& text, const std::string& architecture);
}  // namespace firstlight::device::musa
