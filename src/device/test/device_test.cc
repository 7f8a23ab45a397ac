// SPDX-License-Identifier: Apache-2.0
// What every device must do alike: simt at its three widths, simt with every access checked, OpenCL with warps of 32
// lanes and of one. OpenCL is skipped, in words, on machines that have none.
#include "device/device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <numeric>

#include "device/open.h"

namespace firstlight::device {
namespace {

using target::DeviceKind;

struct Case {
  const char* name;
  DeviceKind kind;
  int warp_width;
  bool checked;
};

// One source for all tests of this file: it is built once per device.
constexpr const char* kSource = R"(
FL_KERNEL(scale)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y, float factor, int n) {
  const fl_i64 i = fl_global_id(0);
  if (i < n) y[i] = x[i] * factor;
}
FL_KERNEL(kinds)(FL_GLOBAL(float) y, FL_GLOBAL(const float) bias, int a, uint b, fl_i64 c, fl_u64 d, float e) {
  y[0] = (float)a;
  y[1] = (float)b;
  y[2] = (float)(c / 1000000);
  y[3] = (float)(d / 1000000u);
  y[4] = e;
  y[5] = bias ? bias[0] : -1.0f;
  y[6] = (float)TIMES;
}
// The sum of each row, a warp per row, a block for several rows; rows and width are what they like.
FL_KERNEL(row_sums)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y, int rows, int width) {
  FL_WARP_STATE;
  const int row = fl_group_id(0) * (fl_block_threads() / FL_WARP) + fl_warp_id();
  float sum = 0.0f;
  if (row < rows) {
    for (int i = fl_lane(); i < width; i += FL_WARP) sum += x[(fl_i64)row * width + i];
  }
  sum = fl_warp_sum(sum);
  if (row < rows && fl_lane() == 0) y[row] = sum;
}
// y[z][y][x] of a grid and blocks in three dimensions.
FL_KERNEL(places)(FL_GLOBAL(int) y) {
  const fl_i64 width = (fl_i64)fl_group_count(0) * fl_local_size(0);
  const fl_i64 height = (fl_i64)fl_group_count(1) * fl_local_size(1);
  const fl_i64 at = fl_global_id(0) + width * (fl_global_id(1) + height * fl_global_id(2));
  y[at] = fl_group_id(0) + 10 * fl_group_id(1) + 100 * fl_group_id(2) + 1000 * fl_thread();
}
FL_KERNEL(turn)(FL_GLOBAL(const int) x, FL_GLOBAL(int) y, FL_DYNAMIC_LOCAL_PARAM) {
  FL_DYNAMIC_LOCAL(int, values);
  values[fl_thread()] = x[fl_thread()];
  FL_BARRIER();
  y[fl_thread()] = values[fl_block_threads() - 1 - fl_thread()];
}
)";

std::filesystem::path make_folder(const std::string& name) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("firstlight-device-test-" + std::to_string(getpid()) + "-" + name);
  std::filesystem::remove_all(folder);
  return folder;
}

class DeviceTest : public testing::TestWithParam<Case> {
 protected:
  static Result<std::unique_ptr<Device>> open(int64_t memory_limit_bytes = 0, const std::filesystem::path& cache = {}) {
    OpenOptions options;
    options.cache_dir = cache;
    options.warp_width = GetParam().warp_width;
    options.checked = GetParam().checked;
    options.memory_limit_bytes = memory_limit_bytes;
    return open_device(GetParam().kind, options);
  }

  void SetUp() override {
    for (const Listed& listed : list_devices()) {
      if (listed.kind == GetParam().kind && listed.devices.empty()) GTEST_SKIP() << listed.absent;
    }
    auto& kept = devices_[GetParam().name];
    if (kept == nullptr) {
      auto opened = open();
      ASSERT_TRUE(opened.ok()) << opened.status().to_string();
      kept = *std::move(opened);
      auto module = kept->build(source());
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      modules_.emplace(GetParam().name, *std::move(module));
    }
    device_ = kept.get();
  }
  static void TearDownTestSuite() {
    modules_.clear();
    devices_.clear();
  }

  static ModuleSource source() { return {.name = "device_test", .text = kSource, .defines = {{"TIMES", "3"}}}; }
  Kernel kernel(std::string_view name) {
    auto found = modules_.at(GetParam().name).kernel(name);
    EXPECT_TRUE(found.ok());
    return *found;
  }
  template <typename T>
  Buffer upload(const std::vector<T>& values) {
    auto buffer = device_->allocate(static_cast<int64_t>(values.size() * sizeof(T)));
    EXPECT_TRUE(buffer.ok());
    EXPECT_TRUE(device_->compute().copy_in(*buffer, std::as_bytes(std::span(values))).ok());
    EXPECT_TRUE(device_->compute().finish().ok());
    return *buffer;
  }
  template <typename T>
  std::vector<T> download(const Buffer& buffer) {
    std::vector<T> values(static_cast<size_t>(buffer.bytes()) / sizeof(T));
    EXPECT_TRUE(device_->compute().copy_out(std::as_writable_bytes(std::span(values)), buffer).ok());
    const Status status = device_->compute().finish();
    EXPECT_TRUE(status.ok()) << status.to_string();
    return values;
  }

  Device* device_ = nullptr;
  static std::map<std::string, std::unique_ptr<Device>> devices_;
  static std::map<std::string, Module> modules_;
};
std::map<std::string, std::unique_ptr<Device>> DeviceTest::devices_;
std::map<std::string, Module> DeviceTest::modules_;

#define EXPECT_MESSAGE(status, code_wanted, part)                                                        \
  do {                                                                                                   \
    const Status seen = (status);                                                                        \
    EXPECT_EQ(seen.code(), code_wanted) << seen.to_string();                                             \
    EXPECT_NE(seen.message().find(part), std::string::npos) << "'" << part << "' in " << seen.message(); \
  } while (false)

TEST_P(DeviceTest, CopiesFillsAndViews) {
  std::vector<uint8_t> bytes(1000);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const Buffer a = upload(bytes);
  const Buffer b = upload(std::vector<uint8_t>(1000, 0));
  ASSERT_TRUE(device_->compute().copy(b.view(3, 500), a.view(101, 500)).ok());
  ASSERT_TRUE(device_->compute().fill(b.view(700, 77), 9).ok());
  ASSERT_TRUE(device_->compute().copy(a.view(0, 100), a.view(900, 100)).ok());
  const auto found = download<uint8_t>(b);
  for (size_t i = 0; i < 1000; ++i) {
    const int wanted = i >= 3 && i < 503 ? bytes[i + 98] : i >= 700 && i < 777 ? 9 : 0;
    ASSERT_EQ(found[i], wanted) << i;
  }
  EXPECT_EQ(download<uint8_t>(a)[5], bytes[905]);
  // A view of a view; nothing at all.
  EXPECT_EQ(download<uint8_t>(b.view(3, 500).view(10, 4))[0], bytes[111]);
  EXPECT_TRUE(device_->compute().copy(b.view(5, 0), a.view(900, 0)).ok());
  EXPECT_TRUE(device_->compute().copy_in(Buffer(), {}).ok());
}

TEST_P(DeviceTest, CopiesThatDoNotFitAreRefused) {
  const Buffer a = upload(std::vector<uint8_t>(100, 1));
  std::vector<std::byte> host(99);
  EXPECT_MESSAGE(device_->compute().copy_in(a, host), StatusCode::kInvalidArgument, "99 bytes to a place of 100");
  EXPECT_MESSAGE(device_->compute().copy_out(host, a), StatusCode::kInvalidArgument, "100 bytes to a place of 99");
  EXPECT_MESSAGE(device_->compute().copy(a, a.view(0, 50)), StatusCode::kInvalidArgument, "50 bytes");
  EXPECT_MESSAGE(device_->compute().copy(a.view(0, 60), a.view(40, 60)), StatusCode::kInvalidArgument, "overlap");
}

TEST_P(DeviceTest, LaunchesWithEveryKindOfArgument) {
  const Buffer y = upload(std::vector<float>(7, 0));
  const Buffer bias = upload(std::vector<float>{0.5f});
  for (const bool has_bias : {true, false}) {
    const Argument arguments[] = {y,
                                  has_bias ? bias : Buffer(),
                                  int32_t{-7},
                                  uint32_t{4000000000u},
                                  int64_t{-5000000000},
                                  uint64_t{18000000000000000000u},
                                  2.5f};
    ASSERT_TRUE(device_->compute().launch(kernel("kinds"), {.arguments = arguments}).ok());
    const std::vector<float> wanted = {-7, 4e9f, -5000, 18e12f, 2.5f, has_bias ? 0.5f : -1.0f, 3};
    EXPECT_EQ(download<float>(y), wanted);
  }
}

TEST_P(DeviceTest, GridsAndBlocksInThreeDimensions) {
  constexpr int kGrid[] = {3, 2, 2};
  constexpr int kBlock[] = {4, 3, 2};
  const Buffer y = upload(std::vector<int32_t>(3 * 2 * 2 * 4 * 3 * 2, -1));
  const Argument arguments[] = {y};
  ASSERT_TRUE(device_->compute()
                  .launch(kernel("places"), {.grid = {3, 2, 2}, .block = {4, 3, 2}, .arguments = arguments})
                  .ok());
  const auto found = download<int32_t>(y);
  for (int z = 0; z < kGrid[2] * kBlock[2]; ++z) {
    for (int v = 0; v < kGrid[1] * kBlock[1]; ++v) {
      for (int u = 0; u < kGrid[0] * kBlock[0]; ++u) {
        const int thread = u % 4 + 4 * (v % 3 + 3 * (z % 2));
        ASSERT_EQ(found[static_cast<size_t>(u + 12 * (v + 6 * z))],
                  u / 4 + 10 * (v / 3) + 100 * (z / 2) + 1000 * thread);
      }
    }
  }
}

TEST_P(DeviceTest, WrongLaunchesAreNamed) {
  const Buffer x = upload(std::vector<float>(64, 1));
  Queue& queue = device_->compute();
  const Kernel scale = kernel("scale");
  const Argument good[] = {x, x, 1.0f, 64};
  const Argument few[] = {x, x, 1.0f};
  const Argument wrong[] = {x, x, 1, 64};
  const auto invalid = StatusCode::kInvalidArgument;
  EXPECT_MESSAGE(queue.launch(scale, {.arguments = few}), invalid, "kernel 'scale': 3 arguments, wanted 4");
  EXPECT_MESSAGE(queue.launch(scale, {.arguments = wrong}), invalid, "argument 2 (factor) is fl_i32, wanted fl_f32");
  EXPECT_MESSAGE(queue.launch(scale, {.block = {2048, 1, 1}, .arguments = good}), invalid, "2048");
  EXPECT_MESSAGE(queue.launch(scale, {.block = {0, 1, 1}, .arguments = good}), invalid, "blocks 0x1x1");
  EXPECT_MESSAGE(queue.launch(scale, {.block = {64, 32, 1}, .arguments = good}), invalid, "2048 threads, at most 1024");
  EXPECT_MESSAGE(queue.launch(scale, {.arguments = good, .local_bytes = 16}), invalid, "takes no dynamic local memory");
  const Argument turned[] = {x, x};
  EXPECT_MESSAGE(queue.launch(kernel("turn"), {.arguments = turned, .local_bytes = int64_t{1} << 40}), invalid,
                 "bytes of local memory, at most");
  if (device_->target().warp_width > 1) {
    const Argument sums[] = {x, x, 1, 1};
    EXPECT_MESSAGE(queue.launch(kernel("row_sums"), {.block = {33, 1, 1}, .arguments = sums}), invalid,
                   "33 threads, wanted whole warps of " + std::to_string(device_->target().warp_width));
  }
  EXPECT_TRUE(queue.launch(scale, {.grid = {0, 1, 1}, .arguments = good}).ok());  // nothing to do is no fault
  const auto unknown = modules_.at(GetParam().name).kernel("scael");
  ASSERT_FALSE(unknown.ok());
  EXPECT_MESSAGE(unknown.status(), StatusCode::kNotFound, "no kernel 'scael', it has: scale, kinds");
  EXPECT_TRUE(queue.finish().ok());
}

// Trap: the width of a warp. Rows just below, at and above each width that exists; the host's plain sum is the judge.
TEST_P(DeviceTest, SizesAroundEveryWarpWidth) {
  const int warp = device_->target().warp_width;
  for (const int width : {1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000}) {
    for (const int rows : {1, 5}) {
      std::vector<float> x(static_cast<size_t>(width * rows));
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 31 % 17) - 8);
      const Buffer in = upload(x);
      const Buffer out = upload(std::vector<float>(static_cast<size_t>(rows), -1));
      const Argument arguments[] = {in, out, rows, width};
      const Launch launch = {.grid = {(rows + 1) / 2, 1, 1}, .block = {2 * warp, 1, 1}, .arguments = arguments};
      ASSERT_TRUE(device_->compute().launch(kernel("row_sums"), launch).ok());
      const auto found = download<float>(out);
      for (int r = 0; r < rows; ++r) {
        const float wanted = std::accumulate(x.begin() + r * width, x.begin() + (r + 1) * width, 0.0f);
        ASSERT_EQ(found[static_cast<size_t>(r)], wanted) << width << " wide, row " << r;
      }
    }
  }
}

TEST_P(DeviceTest, DynamicLocalMemory) {
  std::vector<int32_t> x(48);
  std::iota(x.begin(), x.end(), 0);
  const Buffer in = upload(x);
  const Buffer out = upload(std::vector<int32_t>(48, -1));
  const Argument arguments[] = {in, out};
  ASSERT_TRUE(device_->compute()
                  .launch(kernel("turn"), {.block = {48, 1, 1}, .arguments = arguments, .local_bytes = 48 * 4})
                  .ok());
  const auto found = download<int32_t>(out);
  for (int i = 0; i < 48; ++i) ASSERT_EQ(found[static_cast<size_t>(i)], 47 - i);
}

TEST_P(DeviceTest, QueuesMeetInEvents) {
  constexpr int kCount = 4096;
  constexpr int kRounds = 20;
  std::vector<std::vector<float>> in(kRounds, std::vector<float>(kCount));
  std::vector<std::vector<float>> out(kRounds, std::vector<float>(kCount));
  const Buffer x = upload(std::vector<float>(kCount, 0));
  const Buffer y = upload(std::vector<float>(kCount, 0));
  const Argument arguments[] = {x, y, 2.0f, kCount};
  Event copied_out;
  for (int r = 0; r < kRounds; ++r) {
    std::iota(in[r].begin(), in[r].end(), static_cast<float>(r));
    ASSERT_TRUE(device_->transfer().copy_in(x, std::as_bytes(std::span(in[r]))).ok());
    const auto copied_in = device_->transfer().record();
    ASSERT_TRUE(copied_in.ok());
    ASSERT_TRUE(device_->compute().wait_for(*copied_in).ok());
    ASSERT_TRUE(device_->compute().wait_for(copied_out).ok());
    ASSERT_TRUE(device_->compute()
                    .launch(kernel("scale"), {.grid = {kCount / 64, 1, 1}, .block = {64, 1, 1}, .arguments = arguments})
                    .ok());
    const auto computed = device_->compute().record();
    ASSERT_TRUE(computed.ok());
    ASSERT_TRUE(device_->transfer().wait_for(*computed).ok());
    ASSERT_TRUE(device_->transfer().copy_out(std::as_writable_bytes(std::span(out[r])), y).ok());
    const auto recorded = device_->transfer().record();
    ASSERT_TRUE(recorded.ok());
    copied_out = *recorded;
  }
  ASSERT_TRUE(copied_out.wait().ok());
  EXPECT_TRUE(copied_out.done());
  for (int r = 0; r < kRounds; ++r) {
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(out[r][i], 2.0f * static_cast<float>(r + i)) << r;
  }
  EXPECT_TRUE(Event().done());
  EXPECT_TRUE(Event().wait().ok());
}

TEST_P(DeviceTest, SourceThatDoesNotBuildIsNamedWithTheLog) {
  const auto broken = device_->build(
      {.name = "broken", .text = "FL_KERNEL(k)(FL_GLOBAL(float) x) { x[0] = no_such_word; }", .defines = {}});
  ASSERT_FALSE(broken.ok());
  EXPECT_MESSAGE(broken.status(), StatusCode::kInvalidData, "kernel source 'broken' does not build: ");
  EXPECT_MESSAGE(broken.status(), StatusCode::kInvalidData, "no_such_word");
  const auto nothing = device_->build({.name = "nothing", .text = "int x;", .defines = {}});
  ASSERT_FALSE(nothing.ok());
  EXPECT_MESSAGE(nothing.status(), StatusCode::kInvalidData, "kernel source 'nothing' has no FL_KERNEL");
  const auto odd = device_->build({.name = "odd", .text = "FL_KERNEL(k)(double x) {}", .defines = {}});
  ASSERT_FALSE(odd.ok());
  EXPECT_MESSAGE(odd.status(), StatusCode::kInvalidData,
                 "kernel source 'odd': line 1: kernel 'k': parameter 'double x'");
  EXPECT_TRUE(device_->health().ok());
}

TEST_P(DeviceTest, OutOfMemorySaysWhatIsNeededAndWhatIsThere) {
  auto device = open(int64_t{64} << 20);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ((*device)->available_bytes(), int64_t{64} << 20);
  auto half = (*device)->allocate(int64_t{40} << 20);
  ASSERT_TRUE(half.ok());
  EXPECT_EQ((*device)->bytes_in_use(), int64_t{40} << 20);
  const auto more = (*device)->allocate(int64_t{30} << 20);
  ASSERT_FALSE(more.ok());
  EXPECT_MESSAGE(more.status(), StatusCode::kOutOfMemory, "31457280 bytes needed, 25165824 available");
  half = Buffer();
  EXPECT_EQ((*device)->bytes_in_use(), 0);
  EXPECT_TRUE((*device)->allocate(int64_t{30} << 20).ok());
  const auto absurd = (*device)->allocate(int64_t{1} << 60);
  ASSERT_FALSE(absurd.ok());
  EXPECT_EQ(absurd.code(), StatusCode::kOutOfMemory);
}

TEST_P(DeviceTest, ALostDeviceSaysSoEverywhere) {
  auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  Device& device = **opened;
  auto buffer = device.allocate(256);
  auto module = device.build(source());
  ASSERT_TRUE(buffer.ok() && module.ok());
  auto scale = module->kernel("scale");
  ASSERT_TRUE(scale.ok());
  EXPECT_FALSE(device.lost());
  device.inject(Fault::kLost);
  EXPECT_TRUE(device.lost());
  std::vector<std::byte> host(256);
  const Argument arguments[] = {*buffer, *buffer, 1.0f, 64};
  EXPECT_TRUE(is_device_lost(device.allocate(16).status()));
  EXPECT_TRUE(is_device_lost(device.compute().copy_in(*buffer, host)));
  EXPECT_TRUE(is_device_lost(device.transfer().copy_out(host, *buffer)));
  EXPECT_TRUE(is_device_lost(device.compute().launch(*scale, {.arguments = arguments})));
  EXPECT_TRUE(is_device_lost(device.compute().record().status()));
  EXPECT_TRUE(is_device_lost(device.compute().finish()));
  EXPECT_TRUE(is_device_lost(device.build(source()).status()));
  EXPECT_MESSAGE(device.health(), StatusCode::kUnavailable, "device lost");
}

TEST_P(DeviceTest, ModulesAreKeptUnderTheirKey) {
  const auto folder = make_folder(GetParam().name);
  auto device = open(0, folder);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const ModuleSource one = {
      .name = "one", .text = "FL_KERNEL(k)(FL_GLOBAL(int) x) { x[0] = N; }", .defines = {{"N", "1"}}};
  ModuleSource two = one;
  two.defines[0].second = "2";
  {
    const auto first = (*device)->build(one);
    const auto again = (*device)->build(one);
    const auto other = (*device)->build(two);
    ASSERT_TRUE(first.ok() && again.ok() && other.ok());
    EXPECT_FALSE(first->from_cache());
    EXPECT_TRUE(again->from_cache());
    EXPECT_FALSE(other->from_cache());
  }
  // What is in the folder is spoilt: it is built again, and gives the right answer.
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  EXPECT_GE(files.size(), 2u);
  for (const auto& file : files) {
    std::filesystem::remove(file);
    std::ofstream(file) << "not a module";
  }
  const auto anew = (*device)->build(two);
  ASSERT_TRUE(anew.ok()) << anew.status().to_string();
  EXPECT_FALSE(anew->from_cache());
  const auto x = (*device)->allocate(4);
  const auto k = anew->kernel("k");
  ASSERT_TRUE(x.ok() && k.ok());
  const Argument arguments[] = {*x};
  int32_t value = 0;
  ASSERT_TRUE((*device)->compute().launch(*k, {.arguments = arguments}).ok());
  ASSERT_TRUE((*device)->compute().copy_out(std::as_writable_bytes(std::span(&value, 1)), *x).ok());
  ASSERT_TRUE((*device)->compute().finish().ok());
  EXPECT_EQ(value, 2);
  std::filesystem::remove_all(folder);
}

TEST_P(DeviceTest, HostMemoryIsWrappedWhereItIsTheSame) {
  std::vector<float> host(1024);
  std::iota(host.begin(), host.end(), 0.0f);
  const auto wrapped = device_->wrap(std::as_bytes(std::span(host)));
  if (!device_->target().unified_memory) {
    EXPECT_EQ(wrapped.code(), StatusCode::kUnsupported);
    return;
  }
  ASSERT_TRUE(wrapped.ok());
  const Buffer y = upload(std::vector<float>(1000, 0));
  const Argument arguments[] = {wrapped->view(24 * 4, 4000), y, 3.0f, 1000};
  ASSERT_TRUE(device_->compute()
                  .launch(kernel("scale"), {.grid = {16, 1, 1}, .block = {64, 1, 1}, .arguments = arguments})
                  .ok());
  const auto found = download<float>(y);
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(found[i], 3.0f * static_cast<float>(i + 24));
}

INSTANTIATE_TEST_SUITE_P(
    Devices, DeviceTest,
    testing::Values(Case{"simt32", DeviceKind::kSimt, 32, false}, Case{"simt64", DeviceKind::kSimt, 64, false},
                    Case{"simt128", DeviceKind::kSimt, 128, false}, Case{"simt_checked", DeviceKind::kSimt, 32, true},
                    Case{"opencl32", DeviceKind::kOpencl, 32, false}, Case{"opencl1", DeviceKind::kOpencl, 1, false}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace firstlight::device
