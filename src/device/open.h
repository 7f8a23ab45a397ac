// SPDX-License-Identifier: Apache-2.0
// What devices there are, and opening one. The list is a function that names every kind; a kind whose driver is absent
// says so in a sentence.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace firstlight::device {

struct OpenOptions {
  std::filesystem::path cache_dir;  // built modules; empty: nothing is kept
  int index = 0;                    // which of several devices of the kind, as listed
  int warp_width = 0;               // 0: the device's own; else one of target().warp_widths, or it is refused
  int64_t memory_limit_bytes = 0;   // 0: all of the device's memory
  int num_threads = 0;              // simt: host threads that run blocks; 0: the cores this process may use
  bool checked = false;             // simt: every access through FL_GLOBAL pointers is held against its buffer
};

// Errors: kUnsupported with the reason (no driver, no such device, a width that it has not), what health() says.
Result<std::unique_ptr<Device>> open_device(target::DeviceKind kind, const OpenOptions& options);

struct Listed {
  target::DeviceKind kind;
  std::vector<target::DeviceTarget> devices;
  std::string absent;  // why there is none: "no OpenCL loader (libOpenCL.so.1) on this machine"
};
// Every kind, in the order of DeviceKind.
std::vector<Listed> list_devices();

}  // namespace firstlight::device
