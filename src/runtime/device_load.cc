// SPDX-License-Identifier: Apache-2.0
// Making a device executor: host side load steps, kernels, memory, weights.
#include <algorithm>

#include "plan/load_memory.h"
#include "runtime/device_executor.h"
#include "runtime/executor_internal.h"

namespace firstlight::runtime {

using plan::Buffer;
using plan::BufferId;

DeviceExecutor::DeviceExecutor(plan::Plan plan, const formats::Checkpoint& checkpoint, ThreadPool& pool,
                               const ExecutorOptions& options)
    : Executor(std::move(plan), checkpoint, pool, options),
      device_(*options.device),
      modules_(device_),
      pages_(device_),
      fixed_(plan_.buffers.size()) {
  uploader_ = [this](std::span<const std::byte> bytes) { return upload(bytes); };
  scratcher_ = [this](int64_t bytes) { return scratch(bytes); };
}

Result<std::unique_ptr<Executor>> DeviceExecutor::create(plan::Plan plan, const formats::Checkpoint& checkpoint,
                                                         ThreadPool& pool, const ExecutorOptions& options) {
  if (options.device == nullptr) return internal_error("a plan for " + plan.backend + " without a device");
  std::unique_ptr<DeviceExecutor> executor(new DeviceExecutor(std::move(plan), checkpoint, pool, options));
  FL_TRY(executor->find_rates());
  FL_TRY(executor->map_files());
  FL_TRY(executor->prepare_steps(executor->plan_.load_steps));
  std::sort(executor->kernels_.begin(), executor->kernels_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  FL_TRY(executor->prepare_device_steps(executor->plan_.body.steps));
  FL_TRY(executor->allocate_device_memory());
  FL_TRY(executor->copy_misplaced_files());
  FL_TRY(executor->run_load_steps());
  FL_TRY(executor->bring_weights());
  FL_TRY(executor->allocate_inputs());
  return std::unique_ptr<Executor>(std::move(executor));
}

Status DeviceExecutor::prepare_device_steps(const std::vector<plan::Step>& steps) {
  for (const plan::Step& step : steps) {
    if (const auto* kernel = std::get_if<plan::KernelStep>(&step.body)) {
      FL_TRY(prepare_device_kernel(*kernel).with_context(step.label));
    } else if (const auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) {
      if (expert_rows_.empty()) {
        const kernels::DeviceModules::Defines defines = {{"FL_EXPERTS", "1"}};
        expert_rows_.push_back(FL_TRY(modules_.kernel("dialect/data.fl.cl", "", defines, "expert_rows")));
        expert_sums_.push_back(FL_TRY(modules_.kernel("dialect/data.fl.cl", "", defines, "expert_sums")));
      }
      FL_TRY(prepare_device_steps(experts->body->steps));
    } else if (const auto* branch = std::get_if<plan::IfStep>(&step.body)) {
      FL_TRY(prepare_device_steps(branch->then_block->steps));
      FL_TRY(prepare_device_steps(branch->else_block->steps));
    }
  }
  return ok_status();
}

Status DeviceExecutor::prepare_device_kernel(const plan::KernelStep& step) {
  const kernels::DeviceBody* body = kernels::find_device_kernel(step.symbol);
  if (body == nullptr) return internal_error("kernel " + step.symbol + " has no body in this build");
  std::vector<tensor::Type> operands, results;
  for (const BufferId id : step.inputs) {
    operands.push_back(id < 0 ? tensor::Type::state() : plan_.buffer(id).type);
  }
  for (const BufferId id : step.outputs) results.push_back(plan_.buffer(id).type);
  if (step.outputs.empty()) results.push_back(tensor::Type::state());
  std::vector<const ops::StateDecl*> states;
  for (const int32_t state : step.states) states.push_back(&plan_.states[static_cast<size_t>(state)]);
  auto kernel = FL_TRY(body->prepare(
      {.signature = {.op = step.op, .operands = operands, .results = results, .attributes = step.attributes},
       .states = states,
       .modules = modules_}));
  for (const plan::Bucket& bucket : plan_.buckets) {
    memory_.workspace_bytes = std::max(memory_.workspace_bytes, kernel->workspace_bytes(bucket.largest_values()));
  }
  steps_.emplace(&step, Prepared{std::move(kernel)});
  return ok_status();
}

Status DeviceExecutor::allocate_device_memory() {
  size_t max_tokens = 0, max_outputs = 0;
  for (const plan::Bucket& bucket : plan_.buckets) {
    memory_.arena_bytes = std::max(memory_.arena_bytes, bucket.arena_bytes);
    max_tokens = std::max(max_tokens, static_cast<size_t>(bucket.max_tokens));
    max_outputs = std::max(max_outputs, static_cast<size_t>(bucket.max_outputs));
  }
  const int64_t weights = plan::weight_bytes(plan_).total();
  const int64_t needed = weights + memory_.arena_bytes + memory_.workspace_bytes;
  const int64_t available = device_.available_bytes();
  if (needed > available) {
    return out_of_memory("weights, activations and work space on " + device_.target().name + ": " +
                         std::to_string(needed) + " bytes needed, " + std::to_string(available) + " available");
  }
  device_arena_ = FL_TRY(device_.allocate(std::max<int64_t>(memory_.arena_bytes, 64)));
  device_workspace_ = FL_TRY(device_.allocate(std::max<int64_t>(memory_.workspace_bytes, 64)));
  tokens_.resize(max_tokens);
  positions_.resize(max_tokens);
  output_rows_.resize(max_outputs);
  outputs_.resize(plan_.outputs.size());
  return ok_status();
}

// On the transfer queue, all at once; then the host's copies go.
Status DeviceExecutor::bring_weights() {
  const auto read = plan::read_when_running(plan_);
  StepTimer timer(options_.trace, "weights to the device", StepClass::kIo);
  device::Queue& queue = device_.transfer();
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    const bool is_weight = buffer.kind == Buffer::Kind::kFile || buffer.kind == Buffer::Kind::kResident;
    if (!is_weight || !read[i]) continue;
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(fixed_data_[i]),
                                           static_cast<size_t>(plan::buffer_bytes(buffer)));
    fixed_[i] = FL_TRY(device_.allocate(static_cast<int64_t>(std::max<size_t>(bytes.size(), 1)))
                           .with_context(buffer.name.empty() ? "a weight made at load"
                                                             : "tensor " + formats::quote_name(buffer.name)));
    if (!bytes.empty()) FL_TRY(queue.copy_in(fixed_[i].view(0, static_cast<int64_t>(bytes.size())), bytes));
  }
  FL_TRY(queue.finish());
  memory_.mapped_bytes = 0;
  memory_.resident_bytes = plan::weight_bytes(plan_).total();
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    if (buffer.kind == Buffer::Kind::kFile && fixed_data_[i] != nullptr) {
      if (const auto* record = checkpoint_.find(buffer.name)) checkpoint_.done_with(*record);
    }
    owned_[i].reset();
    fixed_data_[i] = nullptr;
  }
  return ok_status();
}

}  // namespace firstlight::runtime
