// SPDX-License-Identifier: Apache-2.0
// Hardware as data: what a device reports about itself or a file says about an absent one. The compiler and the planner
// know hardware through this alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::target {

// Instruction sets as bits, so that "needs" can be held against "has".
enum Feature : uint32_t {
  kAvx2 = 1u << 0,    // AVX2, FMA, F16C: the baseline
  kAvx512 = 1u << 1,  // F, BW, DQ, VL
  kAvx512Vnni = 1u << 2,
  kAvx512Bf16 = 1u << 3,
  kAvxVnni = 1u << 4,
  // Of devices.
  kMatrixUnits = 1u << 16,   // FL_MMA on hardware
  kHardwareWarps = 1u << 17  // warps are not emulated
};

struct DeviceTarget;

struct Features {
  uint32_t bits = 0;
  bool has(const Features& needed) const { return (bits & needed.bits) == needed.bits; }
};

std::string features_to_string(const Features& features);  // "avx2 avx512 avx512_vnni"
// Errors: kInvalidArgument naming the unknown word.
Result<Features> parse_features(std::string_view text);

// What a device's kernels may ask for.
Features features_of(const DeviceTarget& device);

// Of the cores and memory this process may use (affinity and container limits counted in).
struct CpuTarget {
  std::string model_name;
  Features features;
  int num_cores = 1;
  int64_t l1d_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t l3_bytes = 0;
  int64_t memory_bytes = 0;     // the least of the machine's memory and the container's limit
  int64_t available_bytes = 0;  // of it, free at the time of asking
};

// What the hardware reached when it was measured; 0: not measured.
struct CpuRoof {
  double read_gbps = 0;    // reading memory, all threads, 10^9 bytes per second
  double f32_tflops = 0;   // 10^12 multiplications and additions per second, all threads
  double bf16_tflops = 0;  // bfloat16 products, float32 sums
  double int8_tops = 0;    // int8 products, int32 sums
};

}  // namespace firstlight::target
