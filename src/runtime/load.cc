// SPDX-License-Identifier: Apache-2.0
// Making an executor: files, kernels, memory. The load steps themselves stand in load_steps.cc.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/device_executor.h"
#include "runtime/executor_internal.h"

namespace firstlight::runtime {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Whether the bytes lie where a kernel can not read an element in one go: they are copied once instead.
bool is_misplaced(const std::byte* data, tensor::DType type) {
  const auto& info = tensor::dtype_info(type);
  const size_t alignment = info.is_quantised ? 2 : static_cast<size_t>(std::max<int64_t>(info.block_bytes, 1));
  return reinterpret_cast<uintptr_t>(data) % alignment != 0;
}

}  // namespace

void Executor::Freer::operator()(std::byte* memory) const { std::free(memory); }

Executor::Memory Executor::allocate(int64_t bytes) {
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const size_t alignment = size >= kHugePage ? kHugePage : 64;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (memory != nullptr && alignment == kHugePage) ::madvise(memory, rounded, MADV_HUGEPAGE);
  return Memory(memory);
}

Executor::Executor(plan::Plan plan, const formats::Checkpoint& checkpoint, ThreadPool& pool,
                   const ExecutorOptions& options)
    : plan_(std::move(plan)),
      checkpoint_(checkpoint),
      pool_(pool),
      options_(options),
      fixed_data_(plan_.buffers.size(), nullptr),
      owned_(plan_.buffers.size()),
      routing_(std::make_unique<Routing>()),
      canary_(std::make_unique<CanaryCopies>()) {}

Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(plan::Plan plan, const formats::Checkpoint& checkpoint,
                                                   ThreadPool& pool, const ExecutorOptions& options) {
  if (options.device != nullptr && options.invariant) {
    return unsupported("invariant runs: kernels of devices choose their form by the batch; the cpu has fixed ones");
  }
  if (options.device != nullptr) return DeviceExecutor::create(std::move(plan), checkpoint, pool, options);
  std::unique_ptr<Executor> executor(new Executor(std::move(plan), checkpoint, pool, options));
  FL_TRY(executor->find_rates());
  FL_TRY(executor->map_files());
  FL_TRY(executor->prepare_steps(executor->plan_.load_steps));
  FL_TRY(executor->prepare_steps(executor->plan_.body.steps));
  std::sort(executor->kernels_.begin(), executor->kernels_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  FL_TRY(executor->allocate_memory());
  FL_TRY(executor->copy_misplaced_files());
  FL_TRY(executor->run_load_steps());
  executor->generated_ =
      GeneratedCode::start(executor->plan_.source, options.generated, options.cache_dir, options.host_compiler);
  executor->install_generated();
  return executor;
}

Status Executor::find_rates() {
  tensor::SymbolValues values;
  for (const plan::Buffer& buffer : plan_.buffers) {
    for (const tensor::Dim& dim : buffer.type.shape) {
      if (dim.symbol != tensor::Symbol::kGroups) continue;
      if (!values.set_groups(dim.rate, 0)) {
        return unsupported("the plan counts groups at more than " + std::to_string(tensor::SymbolValues::kMaxRates) +
                           " rates");
      }
    }
  }
  for (const auto& groups : values.groups) {
    if (groups.rate > 0) rates_.push_back(groups.rate);
  }
  return ok_status();
}

Status Executor::map_files() {
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan_.buffers[i];
    if (buffer.kind != plan::Buffer::Kind::kFile) continue;
    const formats::TensorRecord* record = checkpoint_.find(buffer.name);
    if (record == nullptr) return not_found("tensor " + formats::quote_name(buffer.name) + " is not in the checkpoint");
    const auto bytes = FL_TRY(checkpoint_.bytes(*record));
    const int64_t wanted = tensor::size_bytes(buffer.type);
    if (record->dtype != buffer.type.dtype || static_cast<int64_t>(bytes.size()) != wanted) {
      return invalid_data("tensor " + formats::quote_name(buffer.name) + ": " + record->stored_type + " of " +
                          std::to_string(bytes.size()) + " bytes, " + buffer.type.to_string() + " of " +
                          std::to_string(wanted) + " wanted");
    }
    fixed_data_[i] = const_cast<std::byte*>(bytes.data());  // kernels read inputs only
    if (is_misplaced(bytes.data(), buffer.type.dtype)) {
      misplaced_.push_back(static_cast<plan::BufferId>(i));
    } else {
      memory_.mapped_bytes += wanted;
    }
  }
  return ok_status();
}

Status Executor::copy_misplaced_files() {
  for (const plan::BufferId id : misplaced_) {
    const plan::Buffer& buffer = plan_.buffer(id);
    const int64_t bytes = plan::buffer_bytes(buffer);
    auto& memory = owned_[static_cast<size_t>(id)] = allocate(bytes);
    if (memory == nullptr) {
      return out_of_memory("tensor " + formats::quote_name(buffer.name) + ": " + std::to_string(bytes) +
                           " bytes needed");
    }
    void*& data = fixed_data_[static_cast<size_t>(id)];
    std::memcpy(memory.get(), data, static_cast<size_t>(bytes));
    data = memory.get();
    memory_.resident_bytes += bytes;
  }
  return ok_status();
}

Status Executor::prepare_steps(const std::vector<plan::Step>& steps) {
  for (const plan::Step& step : steps) {
    if (const auto* kernel = std::get_if<plan::KernelStep>(&step.body)) {
      FL_TRY(prepare_kernel(*kernel).with_context(step.label));
    } else if (const auto* experts = std::get_if<plan::PerExpertStep>(&step.body)) {
      FL_TRY(prepare_steps(experts->body->steps));
    } else if (const auto* branch = std::get_if<plan::IfStep>(&step.body)) {
      FL_TRY(prepare_steps(branch->then_block->steps));
      FL_TRY(prepare_steps(branch->else_block->steps));
    }
  }
  return ok_status();
}

Status Executor::prepare_kernel(const plan::KernelStep& step) {
  auto kernel = std::make_unique<PreparedKernel>();
  for (const plan::BufferId id : step.inputs) {
    kernel->operand_types.push_back(id < 0 ? tensor::Type::state() : plan_.buffer(id).type);
  }
  for (const plan::BufferId id : step.outputs) kernel->result_types.push_back(plan_.buffer(id).type);
  if (step.outputs.empty()) kernel->result_types.push_back(tensor::Type::state());
  FL_TRY(add_form(step, step.symbol, *kernel));
  if (!step.fallback.empty() && options_.canary_every > 0) FL_TRY(add_form(step, step.fallback, *kernel));
  kernels_.emplace_back(&step, std::move(kernel));
  return ok_status();
}

Status Executor::allocate_memory() {
  int64_t max_tokens = 0, max_outputs = 0;
  for (const plan::Bucket& bucket : plan_.buckets) {
    memory_.arena_bytes = std::max(memory_.arena_bytes, bucket.arena_bytes);
    max_tokens = std::max(max_tokens, bucket.max_tokens);
    max_outputs = std::max(max_outputs, bucket.max_outputs);
  }
  int64_t needed = memory_.arena_bytes + memory_.workspace_bytes + peak_load_bytes();
  if (options_.memory_limit_bytes > 0 && needed > options_.memory_limit_bytes) {
    return out_of_memory("weights made at load, activations and work space: " + std::to_string(needed) +
                         " bytes needed, " + std::to_string(options_.memory_limit_bytes) +
                         " available behind the headroom");
  }
  arena_ = allocate(memory_.arena_bytes);
  workspace_ = allocate(memory_.workspace_bytes);
  if (arena_ != nullptr && options_.check_memory) {
    memory_check_ = std::make_unique<MemoryCheck>(std::span(arena_.get(), static_cast<size_t>(memory_.arena_bytes)));
  }
  if (arena_ == nullptr || workspace_ == nullptr) {
    return out_of_memory("activations and work space: " +
                         std::to_string(memory_.arena_bytes + memory_.workspace_bytes) + " bytes needed");
  }
  tokens_.resize(static_cast<size_t>(max_tokens));
  positions_.resize(static_cast<size_t>(max_tokens));
  output_rows_.resize(static_cast<size_t>(max_outputs));
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan_.buffers[i];
    if (buffer.kind != plan::Buffer::Kind::kInput) continue;
    fixed_data_[i] = buffer.name == "tokens"        ? tokens_.data()
                     : buffer.name == "positions"   ? positions_.data()
                     : buffer.name == "output_rows" ? output_rows_.data()
                                                    : nullptr;
  }
  return allocate_inputs();
}

Status Executor::allocate_inputs() {
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan_.buffers[i];
    const bool is_batch = buffer.name == "tokens" || buffer.name == "positions" || buffer.name == "output_rows";
    if (buffer.kind != plan::Buffer::Kind::kInput || is_batch) continue;
    const int64_t bytes = plan::buffer_bytes(buffer, plan_.buckets.back().largest_values());
    owned_[i] = allocate(bytes);
    if (owned_[i] == nullptr) {
      return out_of_memory("input " + buffer.name + ": " + std::to_string(bytes) + " bytes needed");
    }
    fixed_data_[i] = owned_[i].get();
  }
  return ok_status();
}

std::span<std::byte> Executor::input(std::string_view name) {
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan_.buffers[i];
    if (buffer.kind != plan::Buffer::Kind::kInput || buffer.name != name || owned_[i] == nullptr) continue;
    const int64_t bytes = plan::buffer_bytes(buffer, plan_.buckets.back().largest_values());
    return {static_cast<std::byte*>(fixed_data_[i]), static_cast<size_t>(bytes)};
  }
  return {};
}

}  // namespace firstlight::runtime
