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

// A VNNI instruction multiplies twice as many bytes as the bfloat16 one halves, and no machine starts fewer of them.
TEST(Measure, BytesAreFasterThanHalves) {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
  const target::CpuTarget cpu = detect_cpu();
  if (!cpu.features.has({target::kAvx512 | target::kAvx512Vnni | target::kAvx512Bf16}))
    GTEST_SKIP() << "no AVX-512 BF16";
  ThreadPool pool({1, false, 20});
  const target::CpuRoof roof = measure_cpu(cpu, pool);
  EXPECT_GT(roof.int8_tops, 1.4 * roof.bf16_tflops);
#else
  GTEST_SKIP() << "built without optimisation";
#endif
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
