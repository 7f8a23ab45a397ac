// SPDX-License-Identifier: Apache-2.0
// The executor of plans whose body runs on a device. Load steps run on the host; what the body reads of their results
// and of the files is brought to the device once. A run brings its tables over on the transfer queue, puts the body's
// steps into the compute queue in order and fetches the outputs. Where the host has to decide (which experts have rows,
// which branch is taken) it waits for the numbers that decide.
#pragma once

#include <deque>
#include <unordered_map>

#include "kernels/dialect/device_kernel.h"
#include "runtime/device_pages.h"
#include "runtime/executor.h"

namespace firstlight::runtime {

class DeviceExecutor final : public Executor {
 public:
  // `options.device` is where it runs. Errors: those of Executor::create, the device's own, kUnsupported when a kernel
  // refuses a step (with the step's label).
  static Result<std::unique_ptr<Executor>> create(plan::Plan plan, const formats::Checkpoint& checkpoint,
                                                  ThreadPool& pool, const ExecutorOptions& options);

  Status run(const plan::Batch& batch, std::span<const plan::StateView> states) override;
  tensor::View output(std::string_view name) const override;
  kv::PageStorage* page_storage() override { return &pages_; }
  std::string_view form_of(const plan::KernelStep& step) const override { return step.symbol; }

 private:
  struct Prepared {
    std::unique_ptr<kernels::DeviceKernel> kernel;
  };
  // What a run knows on its way through the steps.
  struct Run {
    const plan::Batch* batch;
    kernels::DeviceBatch tables;
    std::vector<kernels::DeviceState> states;
    std::span<const plan::StateView> state_views;
    tensor::SymbolValues values;
    int64_t expert = -1;     // inside a per-expert step
    std::string_view label;  // of the step that runs
  };

  DeviceExecutor(plan::Plan plan, const formats::Checkpoint& checkpoint, ThreadPool& pool,
                 const ExecutorOptions& options);

  // device_load.cc
  Status prepare_device_steps(const std::vector<plan::Step>& steps);
  Status prepare_device_kernel(const plan::KernelStep& step);
  Status allocate_device_memory();
  Status bring_weights();

  // device_executor.cc
  Status bring_tables(const plan::Batch& batch, std::span<const plan::StateView> states, Run& run);
  Status fetch_outputs(const Run& run);
  Result<device::Buffer> upload(std::span<const std::byte> bytes);
  Result<device::Buffer> scratch(int64_t bytes);
  Status fetch(std::span<std::byte> to, const device::Buffer& from);
  Status fetch_call(const plan::KernelStep& step, const Run& run, bool is_before);  // probe.cc
  kernels::DeviceView view(plan::BufferId id, const Run& run) const;
  Status run_block(const plan::Block& block, Run& run);
  Status run_step(const plan::KernelStep& step, Run& run);
  Status launch(const plan::KernelStep& step, Run& run);
  Status run_step(const plan::PerExpertStep& step, Run& run);
  Status run_step(const plan::IfStep& step, Run& run);

  device::Device& device_;
  kernels::DeviceModules modules_;
  DevicePages pages_;
  std::unordered_map<const plan::KernelStep*, Prepared> steps_;
  std::vector<device::Buffer> fixed_;  // per buffer: files and residents that the body reads
  device::Buffer device_arena_, device_workspace_;
  std::vector<device::Kernel> expert_rows_, expert_sums_;  // one each, where the plan has experts

  // Of the current run. Tables are packed into one buffer; uploads of the steps lie in further ones.
  std::vector<std::byte> staged_;
  device::Buffer tables_;
  std::deque<std::vector<std::byte>> upload_bytes_;
  std::vector<device::Buffer> upload_memory_;  // kept for the next run
  size_t next_upload_ = 0;
  std::function<Result<device::Buffer>(std::span<const std::byte>)> uploader_;
  std::function<Result<device::Buffer>(int64_t)> scratcher_;
  device::Buffer scratch_memory_;
  std::unordered_map<plan::BufferId, device::Buffer> inputs_;
  std::vector<std::vector<std::byte>> outputs_;  // per output of the plan
};

}  // namespace firstlight::runtime
