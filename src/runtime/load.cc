// SPDX-License-Identifier: Apache-2.0
// The loading half of the executor: files, kernels, memory, load steps.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "kernels/linear/packing.h"
#include "runtime/executor_internal.h"

namespace firstlight::runtime {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

catalog::ComputeMode mode_of(const ops::Attributes& attributes) {
  if (!attributes.has("compute")) return catalog::ComputeMode::kF32;
  const std::string& name = attributes.get_string("compute");
  return name == "int8"   ? catalog::ComputeMode::kInt8
         : name == "bf16" ? catalog::ComputeMode::kBf16
                          : catalog::ComputeMode::kF32;
}

// What a kernel may read an element with: unaligned bytes of a file are copied once instead.
size_t natural_alignment(tensor::DType type) {
  const auto& info = tensor::dtype_info(type);
  return info.is_quantised ? 2 : static_cast<size_t>(std::max<int64_t>(info.block_bytes, 1));
}

// The last load step that reads each buffer, aliases followed to the bottom.
std::map<plan::BufferId, size_t> last_uses(const plan::Plan& plan) {
  std::map<plan::BufferId, size_t> last;
  for (size_t i = 0; i < plan.load_steps.size(); ++i) {
    for (plan::BufferId id : std::get<plan::KernelStep>(plan.load_steps[i].body).inputs) {
      while (id >= 0 && plan.buffer(id).kind == plan::Buffer::Kind::kAlias) id = plan.buffer(id).alias_of;
      if (id >= 0) last[id] = i;
    }
  }
  return last;
}

void collect_reads(const plan::Block& block, std::vector<bool>& read);

struct ReadCollector {
  std::vector<bool>& read;
  void operator()(const plan::KernelStep& step) const {
    for (const auto id : step.inputs) {
      if (id >= 0) read[static_cast<size_t>(id)] = true;
    }
  }
  void operator()(const plan::PerExpertStep& step) const { collect_reads(*step.body, read); }
  void operator()(const plan::IfStep& step) const {
    collect_reads(*step.then_block, read);
    collect_reads(*step.else_block, read);
  }
};

void collect_reads(const plan::Block& block, std::vector<bool>& read) {
  for (const plan::Step& step : block.steps) std::visit(ReadCollector{read}, step.body);
}

// Buffers that running (not loading) reads, aliases and slices followed to the bottom.
std::vector<bool> read_when_running(const plan::Plan& plan) {
  std::vector<bool> read(plan.buffers.size(), false);
  collect_reads(plan.body, read);
  for (size_t i = plan.buffers.size(); i-- > 0;) {
    const auto below = plan.buffers[i].alias_of;
    if (read[i] && below >= 0) read[static_cast<size_t>(below)] = true;
  }
  return read;
}

}  // namespace

int64_t stored_bytes(const tensor::Type& type) {
  if (type.layout == tensor::Layout::kRowMajor) return tensor::size_bytes(type);
  const size_t rank = type.shape.size();
  int64_t matrices = 1;
  for (size_t i = 0; i + 2 < rank; ++i) matrices *= type.shape[i].factor;
  return matrices * kernels::packed_matrix_bytes(type.dtype, type.shape[rank - 2].factor, type.shape[rank - 1].factor);
}

catalog::Signature Executor::PreparedKernel::signature(const plan::KernelStep& step) const {
  return {.op = step.op,
          .operands = operand_types,
          .results = result_types,
          .attributes = step.attributes,
          .mode = mode_of(step.attributes)};
}

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
      routing_(std::make_unique<Routing>()) {}

Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(plan::Plan plan, const formats::Checkpoint& checkpoint,
                                                   ThreadPool& pool, const ExecutorOptions& options) {
  std::unique_ptr<Executor> executor(new Executor(std::move(plan), checkpoint, pool, options));
  FL_TRY(executor->map_files());
  FL_TRY(executor->prepare_steps(executor->plan_.load_steps));
  FL_TRY(executor->prepare_steps(executor->plan_.body.steps));
  std::sort(executor->kernels_.begin(), executor->kernels_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  FL_TRY(executor->allocate_memory());
  FL_TRY(executor->run_load_steps());
  return executor;
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
    memory_.mapped_bytes += wanted;
    fixed_data_[i] = const_cast<std::byte*>(bytes.data());  // kernels read inputs only
    if (reinterpret_cast<uintptr_t>(bytes.data()) % natural_alignment(buffer.type.dtype) != 0) {
      owned_[i] = allocate(wanted);
      if (owned_[i] == nullptr)
        return out_of_memory("tensor " + buffer.name + ": " + std::to_string(wanted) + " bytes needed");
      std::memcpy(owned_[i].get(), bytes.data(), bytes.size());
      fixed_data_[i] = owned_[i].get();
    }
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
  kernel->body = kernels::find_kernel(step.symbol);
  if (kernel->body == nullptr) return internal_error("kernel " + step.symbol + " has no body in this build");
  for (const plan::BufferId id : step.inputs) {
    kernel->operand_types.push_back(id < 0 ? tensor::Type::state() : plan_.buffer(id).type);
  }
  for (const plan::BufferId id : step.outputs) kernel->result_types.push_back(plan_.buffer(id).type);
  if (step.outputs.empty()) kernel->result_types.push_back(tensor::Type::state());
  if (kernel->body->prepare != nullptr) {
    const catalog::Signature signature = kernel->signature(step);
    kernel->prepared = FL_TRY(kernel->body->prepare(
        {.signature = signature, .state = step.state < 0 ? nullptr : &plan_.states[static_cast<size_t>(step.state)]}));
  }
  int64_t workspace = 0;
  if (kernel->body->workspace_bytes != nullptr) {
    for (const plan::Bucket& bucket : plan_.buckets) {
      const tensor::SymbolValues values{.tokens = bucket.max_tokens,
                                        .outputs = bucket.max_outputs,
                                        .sequences = bucket.max_tokens,
                                        .rows = bucket.max_tokens};
      workspace =
          std::max(workspace, kernel->body->workspace_bytes(kernel->signature(step), values, pool_.num_threads()));
    }
  }
  memory_.workspace_bytes = std::max(memory_.workspace_bytes, workspace);
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
  int64_t needed = memory_.arena_bytes + memory_.workspace_bytes;
  for (const plan::Buffer& buffer : plan_.buffers) {
    if (buffer.kind == plan::Buffer::Kind::kResident) needed += stored_bytes(buffer.type);
  }
  if (options_.memory_limit_bytes > 0 && needed > options_.memory_limit_bytes) {
    return out_of_memory("weights, activations and work space: " + std::to_string(needed) + " bytes needed, " +
                         std::to_string(options_.memory_limit_bytes) + " available behind the headroom");
  }
  arena_ = allocate(memory_.arena_bytes);
  workspace_ = allocate(memory_.workspace_bytes);
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
    if (fixed_data_[i] == nullptr) return internal_error("the plan has an input nobody knows: " + buffer.name);
  }
  return ok_status();
}

Status Executor::run_load_steps() {
  const auto last = last_uses(plan_);
  const auto read_later = read_when_running(plan_);
  uint64_t total = 0, done = 0;
  for (const auto& [id, step] : last) {
    if (plan_.buffer(id).kind == plan::Buffer::Kind::kFile)
      total += static_cast<uint64_t>(stored_bytes(plan_.buffer(id).type));
  }
  for (size_t i = 0; i < plan_.load_steps.size(); ++i) {
    const auto& step = std::get<plan::KernelStep>(plan_.load_steps[i].body);
    for (const plan::BufferId id : step.outputs) {
      const plan::Buffer& buffer = plan_.buffer(id);
      const int64_t bytes = stored_bytes(buffer.type);
      auto& memory = owned_[static_cast<size_t>(id)] = allocate(bytes);
      if (memory == nullptr) {
        return out_of_memory(plan_.load_steps[i].label + ": " + std::to_string(bytes) + " bytes needed, after " +
                             std::to_string(memory_.resident_bytes) + " of weights");
      }
      fixed_data_[static_cast<size_t>(id)] = memory.get();
      if (buffer.kind == plan::Buffer::Kind::kResident) memory_.resident_bytes += bytes;
    }
    StepTimer timer(options_.trace, plan_.load_steps[i].label, plan_.load_steps[i].step_class);
    pool_.run([&](Worker& worker) {
      Context context{.worker = worker,
                      .batch = nullptr,
                      .states = {},
                      .bucket = nullptr,
                      .values = {},
                      .expert = -1,
                      .inputs = {},
                      .outputs = {}};
      run_step(step, context);
    });
    for (const auto& [id, last_step] : last) {
      if (last_step != i || read_later[static_cast<size_t>(id)]) continue;
      const plan::Buffer& buffer = plan_.buffer(id);
      if (buffer.kind == plan::Buffer::Kind::kTemporary) {
        owned_[static_cast<size_t>(id)].reset();
      } else if (buffer.kind == plan::Buffer::Kind::kFile) {
        done += static_cast<uint64_t>(stored_bytes(buffer.type));
        memory_.mapped_bytes -= stored_bytes(buffer.type);
        if (const auto* record = checkpoint_.find(buffer.name)) checkpoint_.done_with(*record);
        if (options_.load_progress) options_.load_progress(done, total);
      }
    }
  }
  if (options_.load_progress) options_.load_progress(total, total);
  return ok_status();
}

}  // namespace firstlight::runtime
