// SPDX-License-Identifier: Apache-2.0
// From source in the dialect to what a device's compiler reads: the width of a warp and other facts of the device, the
// binding, the core, the caller's defines, the text. Here is also the key under which the result is cached.
#pragma once

#include <string>

#include "device/device.h"

namespace firstlight::device {

// Errors: kInvalidData, of parse_signatures or where there is no kernel in it, with the module's name in front.
struct Assembled {
  std::string text;
  std::vector<KernelSignature> kernels;
};
// `checked` matters to simt alone.
Result<Assembled> assemble(const target::DeviceTarget& target, const ModuleSource& source, bool checked);

// 32 hexadecimal digits of the text, the compiler, the device and its driver.
std::string cache_key(const target::DeviceTarget& target, const std::string& assembled);

// The first lines of a build log, for messages.
std::string first_lines(std::string_view log, int num_lines = 8);

}  // namespace firstlight::device
