// SPDX-License-Identifier: Apache-2.0
// What the simt device catches: barriers that not all threads reach, accesses outside of buffers, local memory that is
// not there. Each test runs a kernel with the fault and expects it by name, and then that the device still works.
#include "device/simt/simt_device.h"

#include <gtest/gtest.h>

#include "device/dialect/simt.fl.h"
#include "device/host_compiler.h"
#include "device/kernel_library.h"
#include "device/simt/block.h"
#include "device/simt/fiber.h"
#include "device/simt/host_memory.h"
#include "device/simt/host_queue.h"

namespace firstlight::device {
namespace {

constexpr const char* kFaults = R"(FL_KERNEL(early_end)(FL_GLOBAL(float) x) {
  if (fl_thread() == 5) return;
  FL_BARRIER();
  x[fl_thread()] = 1.0f;
}
FL_KERNEL(two_places)(FL_GLOBAL(float) x) {
  if (fl_thread() < 32) {
    FL_BARRIER();
  } else {
    FL_BARRIER();
  }
  x[fl_thread()] = 1.0f;
}
FL_KERNEL(one_warp_alone)(FL_GLOBAL(float) x) {
  FL_WARP_STATE;
  if (fl_warp_id() == 0) x[fl_thread()] = fl_warp_sum(1.0f);
}
FL_KERNEL(read_beyond)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y) {
  y[fl_thread()] = x[fl_thread() + 3];
}
FL_KERNEL(read_before)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y) {
  FL_GLOBAL(const float) p = x + fl_thread();
  p -= 1;
  y[fl_thread()] = *p;
}
FL_KERNEL(write_beyond)(FL_GLOBAL(float) y) { y[fl_thread() + 1] = 1.0f; }
FL_KERNEL(vector_beyond)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y) {
  y[fl_thread()] = fl_load_f32x4(x + fl_thread()).w;
}
FL_KERNEL(null_buffer)(FL_GLOBAL(const float) x, FL_GLOBAL(float) y) { y[fl_thread()] = x[0]; }
FL_KERNEL(much_local)(FL_GLOBAL(float) y) {
  FL_LOCAL(float, a, [10000]);
  FL_LOCAL(float, b, [10000]);
  a[fl_thread()] = b[fl_thread()] = 1.0f;
  y[fl_thread()] = a[fl_thread()];
}
FL_KERNEL(fresh_local)(FL_GLOBAL(float) y) {
  FL_LOCAL(float, a, [64]);
  y[fl_thread()] = a[fl_thread()];
}
FL_KERNEL(asserts)(FL_GLOBAL(float) y) {
  FL_ASSERT(fl_thread() != 7);
  y[fl_thread()] = 1.0f;
}
FL_KERNEL(deep)(FL_GLOBAL(float) y) {
  float values[2048];
  for (int i = 0; i < 2048; ++i) values[i] = (float)(i ^ fl_thread());
  float sum = 0.0f;
  for (int i = 0; i < 2048; ++i) sum += values[(i * 7) & 2047];
  FL_BARRIER();
  y[fl_thread()] = sum;
}
FL_KERNEL(fine)(FL_GLOBAL(float) y) {
  FL_BARRIER();
  y[fl_thread()] = (float)fl_thread();
}
)";

class SimtFaults : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const bool checked : {false, true}) {
      auto opened = open_simt({.checked = checked});
      ASSERT_TRUE(opened.ok()) << opened.status().to_string();
      devices_[checked] = *std::move(opened);
      auto module = devices_[checked]->build({.name = "faults", .text = kFaults, .defines = {}});
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      modules_[checked] = std::make_unique<Module>(*std::move(module));
    }
  }
  static void TearDownTestSuite() {
    for (auto& module : modules_) module.reset();
    for (auto& device : devices_) device.reset();
  }

  // The message of running one block of 64 threads, with one or two buffers of 64 floats.
  std::string run(const char* name, bool checked, int num_buffers = 1) {
    Device& device = *devices_[checked];
    std::vector<Argument> arguments;
    for (int i = 0; i < num_buffers; ++i) arguments.emplace_back(*device.allocate(256));
    if (std::string_view(name) == "null_buffer") arguments[0] = Buffer();
    const Status queued =
        device.compute().launch(*modules_[checked]->kernel(name), {.block = {64, 1, 1}, .arguments = arguments});
    EXPECT_TRUE(queued.ok()) << queued.to_string();
    const auto event = device.compute().record();
    const Status at_event = event->wait();
    const Status at_end = device.compute().finish();
    EXPECT_EQ(at_event.code(), at_end.code());
    EXPECT_TRUE(device.compute().finish().ok()) << "told once";
    // The device goes on.
    std::vector<float> y(64);
    const Argument fine[] = {arguments.back()};
    EXPECT_TRUE(
        device.compute().launch(*modules_[checked]->kernel("fine"), {.block = {64, 1, 1}, .arguments = fine}).ok());
    EXPECT_TRUE(
        device.compute().copy_out(std::as_writable_bytes(std::span(y)), std::get<Buffer>(arguments.back())).ok());
    EXPECT_TRUE(device.compute().finish().ok());
    EXPECT_EQ(y[63], 63.0f);
    return at_end.to_string();
  }

  static std::unique_ptr<Device> devices_[2];
  static std::unique_ptr<Module> modules_[2];
};
std::unique_ptr<Device> SimtFaults::devices_[2];
std::unique_ptr<Module> SimtFaults::modules_[2];

#define EXPECT_PART(text, part)                            \
  do {                                                     \
    const std::string seen = (text);                       \
    EXPECT_NE(seen.find(part), std::string::npos) << seen; \
  } while (false)

TEST_F(SimtFaults, BarriersThatNotAllReach) {
  EXPECT_PART(run("early_end", false),
              "kernel 'early_end': 1 of 64 threads ended without reaching the barrier or warp operation in line 3");
  EXPECT_PART(run("two_places", false), "threads of one block wait in line 8 and in line 10");
  EXPECT_PART(run("one_warp_alone", false), "32 of 64 threads ended without reaching");
}

TEST_F(SimtFaults, AccessesOutsideOfBuffers) {
  EXPECT_PART(run("read_beyond", true, 2), "access outside of a buffer: 256 of 256 bytes (block 0,0,0 thread 61,0,0)");
  EXPECT_PART(run("read_before", true, 2), "access outside of a buffer: -4 of 256 bytes (block 0,0,0 thread 0,0,0)");
  EXPECT_PART(run("write_beyond", true), "access outside of a buffer: 256 of 256");
  EXPECT_PART(run("vector_beyond", true, 2), "access outside of a buffer");
  EXPECT_PART(run("null_buffer", true, 2), "access outside of a buffer");
  // Without checks, writes beyond a memory are seen at its edge.
  EXPECT_PART(run("write_beyond", false), "something was written beyond the memory of y");
}

TEST_F(SimtFaults, LocalMemoryThatIsNotThere) {
  EXPECT_PART(run("much_local", false), "more local memory than there is: 80000 of 65536 bytes");
}

TEST_F(SimtFaults, FreshMemoryIsNanWhereChecked) {
  Device& device = *devices_[1];
  const auto y = device.allocate(256);
  std::vector<float> values(64);
  ASSERT_TRUE(device.compute().copy_out(std::as_writable_bytes(std::span(values)), *y).ok());
  ASSERT_TRUE(device.compute().finish().ok());
  EXPECT_NE(values[5], values[5]);
  const Argument arguments[] = {*y};
  ASSERT_TRUE(device.compute().fill(*y, 0).ok());
  ASSERT_TRUE(
      device.compute().launch(*modules_[1]->kernel("fresh_local"), {.block = {64, 1, 1}, .arguments = arguments}).ok());
  ASSERT_TRUE(device.compute().copy_out(std::as_writable_bytes(std::span(values)), *y).ok());
  ASSERT_TRUE(device.compute().finish().ok());
  EXPECT_NE(values[5], values[5]);
}

TEST_F(SimtFaults, AssertsAndLargeStacks) {
  EXPECT_PART(run("asserts", false), "FL_ASSERT(fl_thread() != 7) failed in line");
  EXPECT_EQ(run("deep", false), "ok");
}

TEST_F(SimtFaults, WorkBehindAFaultIsPassedOver) {
  Device& device = *devices_[0];
  const auto y = device.allocate(256);
  const Argument arguments[] = {*y};
  const Launch launch = {.block = {64, 1, 1}, .arguments = arguments};
  ASSERT_TRUE(device.compute().fill(*y, 0).ok());
  ASSERT_TRUE(device.compute().launch(*modules_[0]->kernel("early_end"), launch).ok());
  ASSERT_TRUE(device.compute().launch(*modules_[0]->kernel("fine"), launch).ok());
  EXPECT_FALSE(device.compute().finish().ok());
  std::vector<float> values(64, -1);
  ASSERT_TRUE(device.compute().copy_out(std::as_writable_bytes(std::span(values)), *y).ok());
  ASSERT_TRUE(device.compute().finish().ok());
  EXPECT_EQ(values[63], 0.0f);
}

TEST(Simt, OtherWidthsAndDevicesAreRefused) {
  const auto width = open_simt({.warp_width = 48});
  ASSERT_EQ(width.code(), StatusCode::kUnsupported);
  EXPECT_PART(width.status().message(), "warps of 48 lanes, it has 32, 64, 128");
  EXPECT_EQ(open_simt({.index = 1}).code(), StatusCode::kUnsupported);
}

TEST(Simt, WithoutACompilerThereIsWhatIsPartOfTheProgram) {
  auto device = open_simt({.host_compiler = "no-such-compiler"});  // the probe is part of it
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const auto other = (*device)->build({.name = "other", .text = "FL_KERNEL(k)(FL_GLOBAL(int) x) {}", .defines = {}});
  ASSERT_EQ(other.code(), StatusCode::kUnsupported);
  EXPECT_PART(other.status().message(), "'other' is not part of the program: no C++ compiler 'no-such-compiler'");
}

TEST(Simt, PrebuiltModulesAreFoundByTextAndDefines) {
  const KernelLibrary& library = device_kernels();
  const auto text = library.text("dialect/probe.fl.cl");
  ASSERT_TRUE(text.ok());
  ModuleSource source = {.name = "probe", .text = std::string(*text), .defines = {}};
  EXPECT_NE(library.find_prebuilt(source), nullptr);
  source.defines = {{"A", "1"}};
  EXPECT_EQ(library.find_prebuilt(source), nullptr);
  source.defines.clear();
  source.text += " ";
  EXPECT_EQ(library.find_prebuilt(source), nullptr);
  EXPECT_EQ(library.text("no.fl.cl").code(), StatusCode::kNotFound);
}

TEST(HostCompiler, SaysWhatDoesNotWork) {
  EXPECT_EQ(HostCompiler::of("no-such-compiler").code(), StatusCode::kUnsupported);
  EXPECT_EQ(LoadedLibrary::load("/no/such/library.so").code(), StatusCode::kInvalidData);
}

TEST(HostMemory, EdgesAreWatchedAndBytesCounted) {
  auto account = std::make_shared<MemoryAccount>();
  account->limit_bytes = 1000;
  auto memory = HostMemory::allocate(account, 100, false);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(account->used_bytes.load(), 100);
  EXPECT_TRUE((*memory)->edges_are_whole());
  (*memory)->data()[100] = std::byte{1};
  EXPECT_FALSE((*memory)->edges_are_whole());
  EXPECT_EQ(HostMemory::allocate(account, 901, false).code(), StatusCode::kOutOfMemory);
  memory = HostMemory::allocate(account, 200, true);
  EXPECT_EQ(account->used_bytes.load(), 200);
  memory = unavailable("gone");
  EXPECT_EQ(account->used_bytes.load(), 0);
}

TEST(HostQueue, RunsInOrderAndTellsAFailureOnce) {
  HostQueue queue([] { return ok_status(); });
  std::vector<int> seen;
  const auto add = [&](int i) {
    queue.push([&seen, i] {
      seen.push_back(i);
      return i == 2 ? invalid_data("two") : ok_status();
    });
  };
  for (int i = 0; i < 5; ++i) add(i);
  const Event event = queue.record();
  EXPECT_EQ(event.wait().message(), "two");
  EXPECT_EQ(queue.finish().message(), "two");
  EXPECT_TRUE(queue.finish().ok());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
}

TEST(Fiber, SwitchesThereAndBack) {
  struct State {
    Fiber host, fiber;
    std::vector<int> seen;
  } state;
  const auto stack = FiberStack::make();
  ASSERT_NE(stack, nullptr);
  start_fiber(
      state.fiber, *stack,
      [](void* packed) {
        auto& s = *static_cast<State*>(packed);
        for (int i = 0;; i += 2) {
          s.seen.push_back(i);
          switch_fiber(s.fiber, s.host);
        }
      },
      &state);
  for (int i = 1; i < 6; i += 2) {
    switch_fiber(state.host, state.fiber);
    state.seen.push_back(i);
  }
  end_fiber(state.fiber);
  EXPECT_EQ(state.seen, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace firstlight::device
