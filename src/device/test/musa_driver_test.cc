// SPDX-License-Identifier: Apache-2.0
// What cuda/ does around kernels, built as MUSA and run on the driver of musa_driver.cc: opening with the probe, a
// width that is not what it says, memory, modules and their cache, queues, losses.
#include "device/test/musa_driver.h"

#include <gtest/gtest.h>
#include <musa.h>
#include <unistd.h>

#include <numeric>

#include "device/cuda/cuda_device.h"

namespace firstlight::device {
namespace {

const ModuleSource kScale = {
    .name = "scale",
    .text = "FL_KERNEL(scale)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y, float factor, int n) { y[0] = x[0]; }",
    .defines = {}};

class MusaDriver : public testing::Test {
 protected:
  void SetUp() override { fake_driver() = FakeDriver(); }
  void TearDown() override { EXPECT_EQ(fake_driver().live_bytes, 0); }
};

TEST_F(MusaDriver, DescribesAndOpens) {
  std::string absent;
  const auto targets = musa::list(absent);
  ASSERT_EQ(targets.size(), 1u) << absent;
  EXPECT_EQ(targets[0].kind, target::DeviceKind::kMusa);
  EXPECT_EQ(targets[0].architecture, "mp_22");
  EXPECT_EQ(targets[0].warp_width, 128);
  EXPECT_FALSE(targets[0].has_mma);
  {
    const auto device = musa::open({});
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    EXPECT_EQ(musa::open({.warp_width = 32}).code(), StatusCode::kUnsupported);
    EXPECT_EQ(musa::open({.index = 1}).code(), StatusCode::kUnsupported);
  }
  EXPECT_EQ(fake_driver().live_objects, 0);  // contexts, streams, modules: all given back
  fake_driver().num_devices = 0;
  EXPECT_TRUE(musa::list(absent).empty());
  EXPECT_NE(absent.find("has no device"), std::string::npos);
}

TEST_F(MusaDriver, AWidthThatIsNotWhatItSaysIsRefused) {
  fake_driver().real_warp = 32;
  const auto device = musa::open({});
  ASSERT_EQ(device.code(), StatusCode::kUnsupported);
  EXPECT_NE(device.status().message().find("health probe: warps of 128 lanes: shuffle at 0: found 31, wanted 127"),
            std::string::npos)
      << device.status().message();
}

TEST_F(MusaDriver, RunsKernelsOnViews) {
  auto opened = musa::open({});
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  Device& device = **opened;
  std::vector<float> host(64);
  std::iota(host.begin(), host.end(), 0.0f);
  const auto x = device.allocate(256);
  const auto y = device.allocate(256);
  const auto module = device.build(kScale);
  ASSERT_TRUE(x.ok() && y.ok() && module.ok());
  const auto kernel = module->kernel("scale");
  ASSERT_TRUE(kernel.ok());
  ASSERT_TRUE(device.transfer().copy_in(*x, std::as_bytes(std::span(host))).ok());
  ASSERT_TRUE(device.compute().wait_for(*device.transfer().record()).ok());
  ASSERT_TRUE(device.compute().fill(*y, 0).ok());
  const Argument arguments[] = {x->view(40, 80), y->view(20, 80), 2.0f, 20};
  ASSERT_TRUE(device.compute().launch(*kernel, {.arguments = arguments}).ok());
  ASSERT_TRUE(device.compute().copy_out(std::as_writable_bytes(std::span(host)), *y).ok());
  ASSERT_TRUE(device.compute().finish().ok());
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(host[i], i >= 5 && i < 25 ? 2.0f * static_cast<float>(i + 5) : 0.0f) << i;
  }
  const Status large = device.compute().launch(*kernel, {.block = {1024, 1, 1}, .arguments = arguments});
  EXPECT_NE(large.message().find("this kernel allows 512"), std::string::npos) << large.message();
}

TEST_F(MusaDriver, MemorySaysWhatIsNeededAndWhatIsThere) {
  auto device = musa::open({});
  ASSERT_TRUE(device.ok());
  const auto some = (*device)->allocate(40 << 20);
  ASSERT_TRUE(some.ok());
  EXPECT_EQ((*device)->available_bytes(), 24 << 20);
  const auto more = (*device)->allocate(30 << 20);
  ASSERT_EQ(more.code(), StatusCode::kOutOfMemory);
  EXPECT_NE(more.status().message().find("31457280 bytes needed, 25165824 available"), std::string::npos);
}

TEST_F(MusaDriver, ModulesAreBuiltOnceAndFailuresNamed) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("firstlight-musa-driver-test-" + std::to_string(getpid()));
  for (int round = 0; round < 2; ++round) {
    auto device = musa::open({.cache_dir = folder});
    ASSERT_TRUE(device.ok());
    const auto module = (*device)->build(kScale);
    ASSERT_TRUE(module.ok());
    EXPECT_EQ(module->from_cache(), round == 1);
    EXPECT_EQ(fake_driver().num_compiled, 2);  // the probe and this one, in the first round
    ModuleSource broken = kScale;
    broken.text += " no_such_word";
    const auto failed = (*device)->build(broken);
    ASSERT_EQ(failed.code(), StatusCode::kInvalidData);
    EXPECT_NE(failed.status().message().find("kernel source 'scale' does not build: no_such_word"), std::string::npos);
    fake_driver().num_compiled = 2;
  }
  std::filesystem::remove_all(folder);
}

TEST_F(MusaDriver, ALaunchThatFailsIsTheLossOfTheDevice) {
  auto opened = musa::open({});
  ASSERT_TRUE(opened.ok());
  Device& device = **opened;
  {
    const auto x = device.allocate(64);
    const auto module = device.build(kScale);
    const auto kernel = module->kernel("scale");
    const Argument arguments[] = {*x, *x, 1.0f, 4};
    fake_driver().next_result = MUSA_ERROR_INVALID_VALUE;
    EXPECT_EQ(device.compute().launch(*kernel, {.arguments = arguments}).code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(device.lost());
    fake_driver().next_result = MUSA_ERROR_LAUNCH_FAILED;
    const Status status = device.compute().launch(*kernel, {.arguments = arguments});
    EXPECT_TRUE(is_device_lost(status)) << status.to_string();
    EXPECT_NE(status.message().find("MUSA_ERROR_LAUNCH_FAILED"), std::string::npos);
    EXPECT_TRUE(device.lost());
    EXPECT_TRUE(is_device_lost(device.allocate(16).status()));
    EXPECT_TRUE(is_device_lost(device.compute().finish()));
    device.inject(Fault::kNone);  // so that what is held can be given back
  }
}

}  // namespace
}  // namespace firstlight::device
