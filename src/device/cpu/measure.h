// SPDX-License-Identifier: Apache-2.0
// What this CPU reaches: reading memory, and arithmetic per type, with all threads at once. Takes about half a second;
// run on request (`devices --measure`, `bench`), on a machine that does little else.
#pragma once

#include "base/thread_pool.h"
#include "target/target.h"

namespace firstlight::device {

// `pool` decides the threads. A type for which the CPU has no instruction of its own reports what the kernels do
// instead: bfloat16 in float32 arithmetic, int8 in 16-bit pairs. Where there is not enough free memory to measure
// beyond the caches, read_gbps is 0.
target::CpuRoof measure_cpu(const target::CpuTarget& cpu, ThreadPool& pool);

}  // namespace firstlight::device
