// SPDX-License-Identifier: Apache-2.0
#include "plan/load_memory.h"

#include <algorithm>

namespace firstlight::plan {
namespace {

// The buffer whose bytes an alias, or a part of a stack, stands for.
BufferId below(const Plan& plan, BufferId id) {
  while (id >= 0 && plan.buffer(id).alias_of >= 0) id = plan.buffer(id).alias_of;
  return id;
}

const KernelStep& load_step(const Plan& plan, size_t i) { return std::get<KernelStep>(plan.load_steps[i].body); }

void collect_reads(const Plan& plan, const Block& block, std::vector<bool>& read);

// Marks what the steps of running read.
struct ReadCollector {
  const Plan& plan;
  std::vector<bool>& read;

  void mark(BufferId id) const {
    id = below(plan, id);
    if (id >= 0) read[static_cast<size_t>(id)] = true;
  }
  void operator()(const KernelStep& step) const {
    for (const BufferId id : step.inputs) mark(id);
  }
  void operator()(const PerExpertStep& step) const {
    for (const BufferId id : {step.x, step.indices, step.weights, step.result}) mark(id);
    collect_reads(plan, *step.body, read);
  }
  void operator()(const IfStep& step) const {
    mark(step.condition);
    for (const BufferId id : step.then_results) mark(id);
    for (const BufferId id : step.else_results) mark(id);
    collect_reads(plan, *step.then_block, read);
    collect_reads(plan, *step.else_block, read);
  }
};

void collect_reads(const Plan& plan, const Block& block, std::vector<bool>& read) {
  for (const Step& step : block.steps) std::visit(ReadCollector{plan, read}, step.body);
}

}  // namespace

std::vector<std::vector<BufferId>> last_read_by(const Plan& plan) {
  std::vector<int64_t> last(plan.buffers.size(), -1);
  for (size_t i = 0; i < plan.load_steps.size(); ++i) {
    const KernelStep& step = load_step(plan, i);
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

std::vector<bool> read_when_running(const Plan& plan) {
  std::vector<bool> read(plan.buffers.size(), false);
  collect_reads(plan, plan.body, read);
  for (const auto& output : plan.outputs) ReadCollector{plan, read}.mark(output.buffer);
  return read;
}

WeightBytes weight_bytes(const Plan& plan) {
  const std::vector<bool> read = read_when_running(plan);
  WeightBytes bytes;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (!read[i]) continue;
    if (buffer.kind == Buffer::Kind::kFile) bytes.mapped += buffer_bytes(buffer);
    if (buffer.kind == Buffer::Kind::kResident) bytes.resident += buffer_bytes(buffer);
  }
  return bytes;
}

int64_t peak_load_bytes(const Plan& plan, std::span<const BufferId> copied) {
  int64_t now = 0;
  for (const BufferId id : copied) now += buffer_bytes(plan.buffer(id));
  int64_t peak = now;
  const auto ends = last_read_by(plan);
  const auto read_later = read_when_running(plan);
  for (size_t i = 0; i < plan.load_steps.size(); ++i) {
    for (const BufferId id : load_step(plan, i).outputs) now += buffer_bytes(plan.buffer(id));
    peak = std::max(peak, now);
    for (const BufferId id : ends[i]) {
      const bool is_copied = std::find(copied.begin(), copied.end(), id) != copied.end();
      const bool is_ours = is_copied || plan.buffer(id).kind == Buffer::Kind::kTemporary;
      if (is_ours && !read_later[static_cast<size_t>(id)]) now -= buffer_bytes(plan.buffer(id));
    }
  }
  return peak;
}

}  // namespace firstlight::plan
