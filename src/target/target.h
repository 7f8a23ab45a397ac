// SPDX-License-Identifier: Apache-2.0
// Hardware as data: what a device reports about itself or a file says about an absent one. The compiler and the planner
// know hardware through this alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace firstlight::target {

// Instruction sets as bits, so that "needs" can be held against "has".
enum Feature : uint32_t {
  kAvx2 = 1u << 0,        // AVX2, FMA, F16C: the baseline
  kAvx512 = 1u << 1,      // F, BW, DQ, VL
  kAvx512Vnni = 1u << 2,
  kAvx512Bf16 = 1u << 3,
  kAvxVnni = 1u << 4,
};

struct Features {
  uint32_t bits = 0;
  bool has(const Features& needed) const { return (bits & needed.bits) == needed.bits; }
};

std::string features_to_string(const Features& features);  // "avx2 avx512 avx512_vnni"

struct CpuTarget {
  std::string model_name;
  Features features;
  int num_cores = 1;
  int64_t l1d_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t l3_bytes = 0;
  int64_t memory_bytes = 0;
};

}  // namespace firstlight::target
