// SPDX-License-Identifier: Apache-2.0
// Runs a plan's load steps: each makes weights out of the checkpoint's; what no later step reads is given back at once.
#include <algorithm>

#include "runtime/executor_internal.h"

namespace firstlight::runtime {
namespace {

using plan::Buffer;
using plan::BufferId;

// The buffer whose bytes an alias, or a part of a stack, stands for.
BufferId below(const plan::Plan& plan, BufferId id) {
  while (id >= 0 && plan.buffer(id).alias_of >= 0) id = plan.buffer(id).alias_of;
  return id;
}

const plan::KernelStep& load_step(const plan::Plan& plan, size_t i) {
  return std::get<plan::KernelStep>(plan.load_steps[i].body);
}

void collect_reads(const plan::Plan& plan, const plan::Block& block, std::vector<bool>& read);

// Marks what the steps of running read.
struct ReadCollector {
  const plan::Plan& plan;
  std::vector<bool>& read;

  void mark(BufferId id) const {
    id = below(plan, id);
    if (id >= 0) read[static_cast<size_t>(id)] = true;
  }
  void operator()(const plan::KernelStep& step) const {
    for (const BufferId id : step.inputs) mark(id);
  }
  void operator()(const plan::PerExpertStep& step) const {
    for (const BufferId id : {step.x, step.indices, step.weights, step.result}) mark(id);
    collect_reads(plan, *step.body, read);
  }
  void operator()(const plan::IfStep& step) const {
    mark(step.condition);
    for (const BufferId id : step.then_results) mark(id);
    for (const BufferId id : step.else_results) mark(id);
    collect_reads(plan, *step.then_block, read);
    collect_reads(plan, *step.else_block, read);
  }
};

void collect_reads(const plan::Plan& plan, const plan::Block& block, std::vector<bool>& read) {
  for (const plan::Step& step : block.steps) std::visit(ReadCollector{plan, read}, step.body);
}

// Per load step: the files and temporaries that no later load step reads.
std::vector<std::vector<BufferId>> last_read_by(const plan::Plan& plan) {
  std::vector<int64_t> last(plan.buffers.size(), -1);
  for (size_t i = 0; i < plan.load_steps.size(); ++i) {
    const plan::KernelStep& step = load_step(plan, i);
    for (const auto& list : {step.inputs, step.outputs}) {
      for (const BufferId id : list) {
        if (id >= 0) last[static_cast<size_t>(below(plan, id))] = static_cast<int64_t>(i);
      }
    }
  }
  std::vector<std::vector<BufferId>> by_step(plan.load_steps.size());
  for (size_t id = 0; id < last.size(); ++id) {
    const auto kind = plan.buffers[id].kind;
    if (last[id] < 0 || (kind != Buffer::Kind::kFile && kind != Buffer::Kind::kTemporary)) continue;
    by_step[static_cast<size_t>(last[id])].push_back(static_cast<BufferId>(id));
  }
  return by_step;
}

}  // namespace

std::vector<bool> read_when_running(const plan::Plan& plan) {
  std::vector<bool> read(plan.buffers.size(), false);
  collect_reads(plan, plan.body, read);
  for (const auto& output : plan.outputs) ReadCollector{plan, read}.mark(output.buffer);
  return read;
}

int64_t Executor::peak_load_bytes() const {
  int64_t now = 0;
  for (const BufferId id : misplaced_) now += plan::buffer_bytes(plan_.buffer(id));
  int64_t peak = now;
  const auto ends = last_read_by(plan_);
  const auto read_later = read_when_running(plan_);
  for (size_t i = 0; i < plan_.load_steps.size(); ++i) {
    for (const BufferId id : load_step(plan_, i).outputs) now += plan::buffer_bytes(plan_.buffer(id));
    peak = std::max(peak, now);
    for (const BufferId id : ends[i]) {
      const bool copied = std::find(misplaced_.begin(), misplaced_.end(), id) != misplaced_.end();
      const bool is_ours = copied || plan_.buffer(id).kind == Buffer::Kind::kTemporary;
      if (is_ours && !read_later[static_cast<size_t>(id)]) now -= plan::buffer_bytes(plan_.buffer(id));
    }
  }
  return peak;
}

Status Executor::run_load_steps() {
  const auto ends = last_read_by(plan_);
  const auto read_later = read_when_running(plan_);
  uint64_t total = 0, done = 0;
  for (const auto& list : ends) {
    for (const BufferId id : list) {
      const plan::Buffer& buffer = plan_.buffer(id);
      if (buffer.kind == Buffer::Kind::kFile) total += static_cast<uint64_t>(plan::buffer_bytes(buffer));
    }
  }
  if (options_.load_progress) options_.load_progress(0, total);
  for (size_t i = 0; i < plan_.load_steps.size(); ++i) {
    FL_TRY(run_load_step(i));
    for (const BufferId id : ends[i]) {
      const plan::Buffer& buffer = plan_.buffer(id);
      if (!read_later[static_cast<size_t>(id)]) give_back(id);
      if (buffer.kind != Buffer::Kind::kFile) continue;
      done += static_cast<uint64_t>(plan::buffer_bytes(buffer));
      if (options_.load_progress) options_.load_progress(done, total);
    }
  }
  return ok_status();
}

Status Executor::run_load_step(size_t index) {
  const plan::KernelStep& step = load_step(plan_, index);
  for (const BufferId id : step.outputs) {
    const plan::Buffer& buffer = plan_.buffer(id);
    const int64_t bytes = plan::buffer_bytes(buffer);
    auto& memory = owned_[static_cast<size_t>(id)] = allocate(bytes);
    if (memory == nullptr) {
      return out_of_memory(plan_.load_steps[index].label + ": " + std::to_string(bytes) + " bytes needed, after " +
                           std::to_string(memory_.resident_bytes) + " of weights");
    }
    fixed_data_[static_cast<size_t>(id)] = memory.get();
    if (buffer.kind == Buffer::Kind::kResident) memory_.resident_bytes += bytes;
  }
  StepTimer timer(options_.trace, plan_.load_steps[index].label, plan_.load_steps[index].step_class);
  pool_.run([&](Worker& worker) {
    Context context{.worker = worker,
                    .batch = nullptr,
                    .states = {},
                    .bucket = nullptr,
                    .values = {},
                    .expert = -1,
                    .inputs = {},
                    .outputs = {},
                    .operands = {},
                    .step_states = {}};
    run_step(step, context);
  });
  return ok_status();
}

void Executor::give_back(BufferId id) {
  const plan::Buffer& buffer = plan_.buffer(id);
  auto& memory = owned_[static_cast<size_t>(id)];
  const int64_t bytes = plan::buffer_bytes(buffer);
  if (buffer.kind == Buffer::Kind::kFile) {
    (memory != nullptr ? memory_.resident_bytes : memory_.mapped_bytes) -= bytes;
    if (const auto* record = checkpoint_.find(buffer.name)) checkpoint_.done_with(*record);
  }
  memory.reset();
  fixed_data_[static_cast<size_t>(id)] = nullptr;
}

}  // namespace firstlight::runtime
