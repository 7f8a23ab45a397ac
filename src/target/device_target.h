// SPDX-License-Identifier: Apache-2.0
// A device with memory and kernels of its own, as data: what it reports about itself, or what a file says about an
// absent one. The compiler chooses kernels and layouts by this; nothing else states the width of a warp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::target {

enum class DeviceKind : uint8_t { kSimt, kOpencl, kCuda, kMusa };

std::string_view device_kind_name(DeviceKind kind);  // "simt", "opencl", "cuda", "musa"
// Errors: kInvalidArgument naming the word and the known ones.
Result<DeviceKind> parse_device_kind(std::string_view name);

// How a device's own arithmetic reads FP8 E4M3 codes. kFn is what files hold; kFnuz has no negative zero and half the
// value per code (device/fp8_variant.h converts); kNone: codes are only storage, read by the dialect's helpers as kFn.
enum class Fp8Variant : uint8_t { kNone, kFn, kFnuz };

struct DeviceTarget {
  DeviceKind kind = DeviceKind::kSimt;
  std::string name;            // "NVIDIA H200", "pthread-skylake-avx512-AMD EPYC"
  std::string vendor;          // "NVIDIA", "AuthenticAMD"
  std::string driver_version;  // as the driver writes it
  std::string compiler;        // what turns kernel source into code, with its version; part of the cache key
  std::string architecture;    // "sm_90", "mp_31", "x86-64", "OpenCL C 1.2"

  int compute_units = 1;
  // Lanes that take part in one warp operation; kernels are built for exactly this (FL_WARP). A power of two, 1 to 128.
  int warp_width = 32;
  std::vector<int> warp_widths;    // the widths it may be opened with; the first is the default
  bool warps_in_hardware = false;  // false: the dialect emulates warp operations in local memory
  bool lockstep = false;  // lanes of a warp run together in hardware (else warp operations meet as barriers do)

  int64_t max_block_threads = 1;
  std::array<int64_t, 3> max_block = {1, 1, 1};
  std::array<int64_t, 3> max_grid = {1, 1, 1};
  int64_t local_bytes = 0;           // local memory of one block, static and dynamic together
  int64_t global_bytes = 0;          // memory of the device, cut by OpenOptions::memory_limit_bytes
  int64_t max_allocation_bytes = 0;  // of one buffer
  int64_t buffer_alignment = 64;     // what allocate() aligns to, and what arenas should
  int64_t max_argument_bytes = 1024;

  bool has_f64 = false;
  bool has_half = false;  // half arithmetic (half as storage always works)
  bool has_bf16 = false;  // bfloat16 arithmetic (storage always works)
  bool has_mma = false;   // FL_MMA on matrix units; else its scalar twin
  bool has_f32_atomics = false;
  bool unified_memory = false;  // host memory can be wrapped without a copy
  Fp8Variant fp8 = Fp8Variant::kNone;
};

}  // namespace firstlight::target
