// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/detect.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace firstlight::device {
namespace {

// A tree of files that stands for a machine's /proc and /sys.
class Machine {
 public:
  Machine() {
    root_ = std::filesystem::path(testing::TempDir()) /
            ("machine_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(root_);
    put("/proc/meminfo", "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:   12000 kB\n");
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU 9\nflags\t\t: fpu\n");
  }
  ~Machine() { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_.string() + path).substr(0, (root_.string() + path).rfind('/')));
    std::ofstream(root_.string() + path) << text;
  }
  target::CpuTarget detect() const { return detect_cpu(root_.string()); }

 private:
  std::filesystem::path root_;
};

TEST(Detect, ReadsMemoryNameAndCaches) {
  Machine machine;
  const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index";
  const std::vector<std::vector<std::string>> caches = {
      {"1", "Data", "48K"}, {"1", "Instruction", "32K"}, {"2", "Unified", "1024K"}, {"3", "Unified", "32M"}};
  for (size_t i = 0; i < caches.size(); ++i) {
    machine.put(cache + std::to_string(i) + "/level", caches[i][0] + "\n");
    machine.put(cache + std::to_string(i) + "/type", caches[i][1] + "\n");
    machine.put(cache + std::to_string(i) + "/size", caches[i][2] + "\n");
  }
  const target::CpuTarget cpu = machine.detect();
  EXPECT_EQ(cpu.model_name, "Some CPU 9");
  EXPECT_EQ(cpu.memory_bytes, 16000 * 1024);
  EXPECT_EQ(cpu.available_bytes, 12000 * 1024);
  EXPECT_EQ(cpu.l1d_bytes, 48 << 10);
  EXPECT_EQ(cpu.l2_bytes, 1 << 20);
  EXPECT_EQ(cpu.l3_bytes, 32 << 20);
  EXPECT_GE(cpu.num_cores, 1);
}

TEST(Detect, UnifiedControlGroupsCutCoresAndMemory) {
  Machine machine;
  machine.put("/proc/self/cgroup", "0::/outer/inner\n");
  machine.put("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  machine.put("/sys/fs/cgroup/outer/cpu.max", "50000 100000\n");
  machine.put("/sys/fs/cgroup/outer/memory.max", "8000000\n");
  machine.put("/sys/fs/cgroup/outer/memory.current", "3000000\n");
  machine.put("/sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 1000000\n");
  machine.put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  const target::CpuTarget cpu = machine.detect();
  EXPECT_EQ(cpu.num_cores, 1);
  EXPECT_EQ(cpu.memory_bytes, 8000000);
  EXPECT_EQ(cpu.available_bytes, 6000000);
}

TEST(Detect, FirstControlGroupsCutCoresAndMemory) {
  Machine machine;
  machine.put("/proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n");
  machine.put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  machine.put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  machine.put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4000000\n");
  machine.put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000000\n");
  const target::CpuTarget cpu = machine.detect();
  EXPECT_EQ(cpu.num_cores, 1);
  EXPECT_EQ(cpu.memory_bytes, 4000000);
  EXPECT_EQ(cpu.available_bytes, 3000000);
}

TEST(Detect, ThisMachine) {
  const target::CpuTarget cpu = detect_cpu();
  EXPECT_GE(cpu.num_cores, 1);
  EXPECT_GT(cpu.memory_bytes, 0);
  EXPECT_LE(cpu.available_bytes, cpu.memory_bytes);
  EXPECT_TRUE(cpu.features.has({target::kAvx2}));  // the floor this program is built for
}

TEST(Detect, NothingToReadIsNoFailure) {
  const target::CpuTarget cpu = detect_cpu("/no/such/root");
  EXPECT_GE(cpu.num_cores, 1);
  EXPECT_EQ(cpu.memory_bytes, 0);
}

}  // namespace
}  // namespace firstlight::device
