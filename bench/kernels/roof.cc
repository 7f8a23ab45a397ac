// SPDX-License-Identifier: Apache-2.0
#include "roof.h"

#include <immintrin.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

namespace firstlight::bench {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::atomic<uint64_t> sink{0};  // keeps what is read alive

}  // namespace

std::byte* large_memory(size_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  void* memory = std::aligned_alloc(kPage, rounded);
  if (memory == nullptr) return nullptr;
  madvise(memory, rounded, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

double read_roof(ThreadPool& pool, const std::byte* memory, size_t bytes) {
  constexpr int64_t kStreams = 4;
  const double start = seconds_now();
  pool.run([&](Worker& worker) {
    const Worker::Range range = worker.share(static_cast<int64_t>(bytes), kStreams * 256);
    const int64_t part = (range.end - range.begin) / kStreams / 64 * 64;
    __m256i sum = _mm256_setzero_si256();
    for (int64_t at = 0; at < part; at += 64) {
      for (int64_t s = 0; s < kStreams; ++s) {
        const std::byte* from = memory + range.begin + s * part + at;
        _mm_prefetch(reinterpret_cast<const char*>(from + 2048), _MM_HINT_T0);
        sum = _mm256_add_epi64(sum, _mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
        sum = _mm256_add_epi64(sum, _mm256_load_si256(reinterpret_cast<const __m256i*>(from + 32)));
      }
    }
    sink += static_cast<uint64_t>(_mm256_extract_epi64(sum, 0));
  });
  return static_cast<double>(bytes) / (seconds_now() - start);
}

double compute_roof(ThreadPool& pool, Unit unit) {
  if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512bf16")) return 0;
  std::atomic<int64_t> operations{0};
  const double start = seconds_now();
  pool.run([&](Worker&) { operations += static_cast<int64_t>(detail::spin_avx512(unit, 2'000'000)); });
  return static_cast<double>(operations.load()) / (seconds_now() - start);
}

}  // namespace firstlight::bench
