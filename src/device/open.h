// SPDX-License-Identifier: Apache-2.0
// What devices there are, and opening one. The list is a function that names every kind; a kind whose driver is absent
// says so in a sentence.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/kernel_library.h"

namespace firstlight::device {

struct OpenOptions {
  std::filesystem::path cache_dir;  // built modules, this user's alone; empty: nothing is kept
  int index = 0;                    // which of several devices of the kind, as listed
  int warp_width = 0;               // 0: the device's own; else one of target().warp_widths, or it is refused
  int64_t memory_limit_bytes = 0;   // 0: all of the device's memory
  int num_threads = 0;              // simt: host threads that run blocks; 0: the cores this process may use
  bool checked = false;             // simt: every access through FL_GLOBAL pointers is held against its buffer
  std::string host_compiler;        // simt: the C++ compiler for other sources; empty: looked for on the path
  // Kernel sources of the program whose forms for simt are part of it; others need a C++ compiler on the machine.
  std::vector<const KernelLibrary*> libraries;
};

// Errors: those of make_private_folder, kUnsupported with the reason (no driver, no such device, a width that it has
// not), what health() says.
Result<std::unique_ptr<Device>> open_device(target::DeviceKind kind, const OpenOptions& options);

struct Listed {
  target::DeviceKind kind;
  std::vector<target::DeviceTarget> devices;
  std::string absent;  // why there is none: "no OpenCL loader (libOpenCL.so.1) on this machine"
};
// Every kind, in the order of DeviceKind. Nothing is opened or measured.
std::vector<Listed> list_devices();

// Sets target.warp_width to `wanted` (0: as it is). Errors: kUnsupported naming the widths there are.
Status choose_warp_width(target::DeviceTarget& target, int wanted);

}  // namespace firstlight::device
