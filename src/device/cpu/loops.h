// SPDX-License-Identifier: Apache-2.0
// Loops that do nothing but keep one unit of the CPU busy; one table per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firstlight::device {

struct MeasuringLoops {
  // Each runs `rounds` times and returns a value that depends on all of them, so that nothing is left out. The numbers
  // beside say how many operations (multiply and add count as two) one round is.
  float (*f32)(int64_t rounds);
  int64_t f32_operations;
  float (*bf16)(int64_t rounds);
  int64_t bf16_operations;
  float (*int8)(int64_t rounds);
  int64_t int8_operations;
};

const MeasuringLoops& loops_avx2();
const MeasuringLoops& loops_avx512();  // needs avx512, avx512_vnni, avx512_bf16

// Reads `bytes` (a multiple of 512) once.
int64_t read_through(const std::byte* data, size_t bytes);

}  // namespace firstlight::device
