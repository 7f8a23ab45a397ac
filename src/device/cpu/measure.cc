// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "device/cpu/loops.h"

namespace firstlight::device {
namespace {

constexpr int kTries = 3;
constexpr double kLoopSeconds = 0.02;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Runs `work` on all threads at once; the most of a few tries of work(worker) summed over the threads, per second from
// the first start to the last end. Some threads may be left out of a try.
template <typename Work>
double most_per_second(ThreadPool& pool, Work&& work) {
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    double start = 0;
    double end = 0;
    std::atomic<double> done{0};
    pool.run([&](Worker& worker) {
      worker.barrier();
      if (worker.index() == 0) start = now();
      done += work(worker);
      worker.barrier();
      if (worker.index() == 0) end = now();
    });
    best = std::max(best, done / (end - start));
  }
  return best;
}

// 10^12 operations per second with all threads.
double measure_loop(ThreadPool& pool, float (*loop)(int64_t), int64_t operations) {
  std::atomic<float> sink{0};
  int64_t rounds = 1000;
  const double probe_start = now();
  sink.store(loop(rounds));
  const double probe = std::max(now() - probe_start, 1e-9);
  rounds = std::max<int64_t>(rounds, static_cast<int64_t>(static_cast<double>(rounds) * kLoopSeconds / probe));
  return 1e-12 * most_per_second(pool, [&](Worker&) {
           sink.store(loop(rounds));
           return static_cast<double>(rounds) * static_cast<double>(operations);
         });
}

double measure_reading(const target::CpuTarget& cpu, ThreadPool& pool) {
  constexpr int64_t kLeast = int64_t{128} << 20;
  const int64_t wanted = std::max(kLeast, 4 * cpu.l3_bytes);
  const int64_t affordable = cpu.available_bytes / 4;
  const int64_t bytes = std::min(wanted, affordable) & ~int64_t{4095};
  if (bytes < std::max(kLeast, 2 * cpu.l3_bytes)) return 0;
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<size_t>(bytes))), std::free);
  if (memory == nullptr) return 0;
  // Each thread writes its own part first, so that its pages are near it.
  pool.run([&](Worker& worker) {
    const Worker::Range range = worker.share(bytes, 4096);
    std::memset(memory.get() + range.begin, 1, static_cast<size_t>(range.end - range.begin));
  });
  std::atomic<int64_t> sink{0};
  return 1e-9 * most_per_second(pool, [&](Worker& worker) {
           const Worker::Range range = worker.share(bytes, 4096);
           sink.fetch_xor(read_through(memory.get() + range.begin, static_cast<size_t>(range.end - range.begin)));
           return static_cast<double>(range.end - range.begin);
         });
}

}  // namespace

target::CpuRoof measure_cpu(const target::CpuTarget& cpu, ThreadPool& pool) {
  const bool wide = cpu.features.has({target::kAvx512 | target::kAvx512Vnni | target::kAvx512Bf16});
  const MeasuringLoops& loops = wide ? loops_avx512() : loops_avx2();
  target::CpuRoof roof;
  roof.f32_tflops = measure_loop(pool, loops.f32, loops.f32_operations);
  roof.bf16_tflops = measure_loop(pool, loops.bf16, loops.bf16_operations);
  roof.int8_tops = measure_loop(pool, loops.int8, loops.int8_operations);
  roof.read_gbps = measure_reading(cpu, pool);
  return roof;
}

}  // namespace firstlight::device
