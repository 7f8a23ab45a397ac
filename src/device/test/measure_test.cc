// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/measure.h"

#include <gtest/gtest.h>

#include <vector>

#include "device/cpu/detect.h"
#include "device/cpu/loops.h"

namespace firstlight::device {
namespace {

TEST(Measure, FindsSomethingPlausible) {
  const target::CpuTarget cpu = detect_cpu();
  ThreadPool pool({1, false, 20});
  const target::CpuRoof roof = measure_cpu(cpu, pool);
  EXPECT_GT(roof.f32_tflops, 1e-4);  // 0.1 GFLOP/s: below any machine this runs on
  EXPECT_LT(roof.f32_tflops, 10);
  EXPECT_GT(roof.bf16_tflops, 1e-4);
  EXPECT_GT(roof.int8_tops, 1e-4);
  EXPECT_LT(roof.read_gbps, 2000);
}

TEST(Measure, TooLittleMemoryIsNotMeasured) {
  target::CpuTarget cpu = detect_cpu();
  cpu.available_bytes = 1 << 20;
  ThreadPool pool({1, false, 20});
  EXPECT_EQ(measure_cpu(cpu, pool).read_gbps, 0);
}

TEST(Measure, ReadThroughSeesEveryByte) {
  std::vector<std::byte> data(4096, std::byte{0});
  const int64_t zero = read_through(data.data(), data.size());
  EXPECT_EQ(zero, 0);
  for (const size_t at : {size_t{0}, size_t{256}, size_t{3584}}) {
    data[at] = std::byte{1};
    EXPECT_NE(read_through(data.data(), data.size()), zero) << at;
    data[at] = std::byte{0};
  }
}

TEST(Measure, LoopsAreNotFoldedAway) {
  EXPECT_NE(loops_avx2().f32(10), loops_avx2().f32(1000));
  EXPECT_EQ(loops_avx2().int8(100), 10 * 100 * 4 * 6);  // chains, rounds, bytes of a lane, 3 * 2
}

}  // namespace
}  // namespace firstlight::device
