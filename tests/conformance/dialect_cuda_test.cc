// SPDX-License-Identifier: Apache-2.0
// Every module that the device bodies print for the cases of their operators, as CUDA for sm_90: through NVRTC, on a
// machine without such a device. Nothing runs; a machine without NVRTC skips.
#include <gtest/gtest.h>

#include "device/compile_check.h"
#include "run_device_case.h"

namespace firstlight::conformance {
namespace {

class Nowhere final : public device::Memory {};

class NoWork final : public device::Queue {
 public:
  Status copy_in(const device::Buffer&, std::span<const std::byte>) override { return ok_status(); }
  Status copy_out(std::span<std::byte>, const device::Buffer&) override { return ok_status(); }
  Status copy(const device::Buffer&, const device::Buffer&) override { return ok_status(); }
  Status fill(const device::Buffer&, uint8_t) override { return ok_status(); }
  Status launch(const device::Kernel&, const device::Launch&) override { return ok_status(); }
  Result<device::Event> record() override { return device::Event(); }
  Status wait_for(const device::Event&) override { return ok_status(); }
  Status finish() override { return ok_status(); }
};

class NoCode final : public device::Module::Code {
 public:
  Result<std::shared_ptr<device::Kernel::Body>> find(const device::KernelSignature&) override {
    return std::make_shared<device::Kernel::Body>();
  }
};

// A device that compiles and does nothing else.
class CompilesOnly final : public device::Device {
 public:
  CompilesOnly() : Device(device::cuda_target_of("sm_90")) {}
  Result<device::Buffer> allocate(int64_t bytes) override {
    return device::Buffer(std::make_shared<Nowhere>(), 0, bytes);
  }
  int64_t bytes_in_use() const override { return 0; }
  int64_t available_bytes() const override { return int64_t{1} << 40; }
  device::Queue& compute() override { return queue_; }
  device::Queue& transfer() override { return queue_; }
  Result<device::Module> build(const device::ModuleSource& source) override {
    FL_TRY(device::compiles_for_cuda(source, "sm_90"));
    auto kernels = FL_TRY(device::parse_signatures(source.text));
    return device::Module(source.name, std::move(kernels), std::make_shared<NoCode>(), false);
  }
  bool lost() const override { return false; }
  void inject(device::Fault) override {}

 private:
  NoWork queue_;
};

TEST(DialectCuda, EveryPrintedModuleCompilesForSm90) {
  const device::ModuleSource probe{
      .name = "probe", .text = "FL_KERNEL(k)(FL_GLOBAL(float) x) { x[0] = 1.0f; }\n", .defines = {}};
  const Status there = device::compiles_for_cuda(probe, "sm_90");
  if (there.code() == StatusCode::kUnsupported) GTEST_SKIP() << there.message();
  CompilesOnly device;
  kernels::DeviceModules modules(device);
  for (const Case& c : all_cases()) {
    const auto operands = operand_types(c);
    const auto results = result_types(c);
    std::vector<const ops::StateDecl*> states;
    for (const State& state : c.state) states.push_back(&state.decl);
    const catalog::Signature signature{c.op, operands, results, c.attributes};
    const catalog::KernelRow* row = catalog::select_kernel(catalog::Backend::kCuda, {}, signature);
    if (row == nullptr) continue;
    const auto step = kernels::find_device_kernel(row->symbol)
                          ->prepare({.signature = signature, .states = states, .modules = modules});
    if (!step.ok() && step.status().code() == StatusCode::kUnsupported) continue;  // refused by name: states in blocks
    EXPECT_TRUE(step.ok()) << ops::op_name(c.op) << " \"" << c.name << "\": " << step.status().message();
  }
  EXPECT_GT(modules.num_modules(), 100u);
}

}  // namespace
}  // namespace firstlight::conformance
