// SPDX-License-Identifier: Apache-2.0
// The simt device: kernels as C++ on this machine's cores, blocks spread over host threads, the threads of a block as
// fibers (block.h). It is there to run device code everywhere, at any width of a warp, and to catch what real devices
// leave undefined; speed is not its purpose.
#pragma once

#include <memory>

#include "device/open.h"

namespace firstlight::device {

// What it reports without being opened.
target::DeviceTarget simt_target();

// Errors: kUnsupported for another warp width than 32, 64 or 128.
Result<std::unique_ptr<Device>> open_simt(const OpenOptions& options);

}  // namespace firstlight::device
