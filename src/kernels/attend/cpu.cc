// SPDX-License-Identifier: Apache-2.0
// attend and attend_segments on the CPU: tasks dealt out to the workers. No row of scores is ever whole; the pages of a
// key/value head are walked once for all query heads that share it; keys outside a window or a selection are never
// touched. With few tasks and many keys the keys are split too and the parts merged at the end.
#include "kernels/attend/task.h"
#include "kernels/bodies.h"

namespace firstlight::kernels {
namespace {

AttendSplit make_split(const KernelCall& call, const AttendOptions& options, int num_workers) {
  std::vector<int64_t> counts;
  for (const SegmentOptions& segment : options.segments) {
    const int select = segment.rules.select_operand;
    counts.push_back(select < 0 ? 0 : call.inputs[static_cast<size_t>(select)].dim(2));
  }
  const auto key = static_cast<size_t>(options.segments[0].key);
  return {options,    std::move(counts), *call.batch, call.inputs[0].dim(1), call.states[0]->components[key].heads,
          num_workers};
}

template <const AttendForm& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const CpuAttendOptions&>(*call.prepared);
  const AttendSplit split = make_split(call, options.attend(), worker.most());
  if (split.num_items() == 0) return;
  AttendTaskRun task_run(call, options, kForm(), split, worker);
  if (split.num_parts() == 1) {
    worker.reset_tickets();
    for (int64_t i = worker.next_ticket(split.num_tasks()); i >= 0; i = worker.next_ticket(split.num_tasks())) {
      task_run.run(split.task(i));
      task_run.store_result();
    }
    return;
  }
  auto* parts = reinterpret_cast<float*>(call.workspace.data());
  const int64_t stride =
      AttendTaskRun::part_floats(AttendSplit::most_rows(split.group()), options.attend().value_width);
  FL_CHECK(static_cast<int64_t>(call.workspace.size()) >= split.num_tasks() * stride * 4);
  for (int64_t i = worker.index(); i < split.num_tasks(); i += worker.count()) {
    task_run.run(split.task(i));
    task_run.store_part(parts + i * stride);
  }
  worker.barrier();
  for (int64_t item = worker.index(); item < split.num_items(); item += worker.count()) {
    task_run.merge(split.task(item * split.num_parts()), parts + item * split.num_parts() * stride, stride);
  }
}

int64_t workspace_bytes(const catalog::Signature& signature, const tensor::SymbolValues&, int num_workers) {
  const int64_t heads = signature.operands[0].shape[1].factor;
  const int64_t value_width = signature.results[0].shape[2].factor;
  return AttendSplit::most_split_tasks(num_workers) *
         AttendTaskRun::part_floats(AttendSplit::most_rows(heads), value_width) * 4;
}

}  // namespace

std::span<const KernelBody> attend_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"attend_f32_f32_avx2", prepare_cpu_attend, run<attend_form_avx2>, workspace_bytes},
      {"attend_f32_f32_avx512", prepare_cpu_attend, run<attend_form_avx512>, workspace_bytes},
      {"attend_segments_f32_f32_avx2", prepare_cpu_attend, run<attend_form_avx2>, workspace_bytes},
      {"attend_segments_f32_f32_avx512", prepare_cpu_attend, run<attend_form_avx512>, workspace_bytes}};
  return kBodies;
}

}  // namespace firstlight::kernels
