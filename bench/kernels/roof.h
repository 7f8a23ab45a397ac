// SPDX-License-Identifier: Apache-2.0
// What the machine could do at most, measured: reading memory, and multiplying in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace firstlight::bench {

// Memory of 2 MiB pages where the system grants them; never given back.
std::byte* large_memory(size_t bytes);

// Bytes per second of reading `bytes` of memory once by all threads, several streams each, prefetched.
double read_roof(ThreadPool& pool, const std::byte* memory, size_t bytes);

enum class Unit { kFloat32, kBf16, kInt8 };
// Operations per second (a multiply and an add are two) with all operands in registers; 0 where this CPU lacks AVX-512
// with VNNI and BF16.
double compute_roof(ThreadPool& pool, Unit unit);

namespace detail {
// Runs `rounds` times 24 independent vector products; returns operations done. In roof_avx512.cc.
double spin_avx512(Unit unit, int64_t rounds);
}  // namespace detail

}  // namespace firstlight::bench
