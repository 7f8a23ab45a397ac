// SPDX-License-Identifier: Apache-2.0
// Whether a source in the dialect builds for CUDA, on a machine without such a device: through the run-time compiler
// where its library is, else not at all. For tests and for `ops` on absent hardware.
#pragma once

#include <string>

#include "device/device.h"

namespace firstlight::device {

// What assemble() needs to know of a CUDA device of this architecture, "sm_90".
target::DeviceTarget cuda_target_of(const std::string& architecture);

// Errors: kInvalidData with the first lines of the log; kUnsupported without a compiler, in a sentence.
Status compiles_for_cuda(const ModuleSource& source, const std::string& architecture);

}  // namespace firstlight::device
