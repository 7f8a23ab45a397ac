// SPDX-License-Identifier: Apache-2.0
// attend and attend_segments on the CPU: tasks dealt out to the workers. No row of scores is ever whole; the pages of a
// key/value head are walked once for all query heads that share it; keys outside a window or a selection are never
// touched.
#include "kernels/attend/task.h"
#include "kernels/bodies.h"

namespace firstlight::kernels {
namespace {

// Few items and many keys: rounds of parts for all workers, joined in between. Where each item has a worker's time to
// itself, it takes its parts one after the other.
class PartRounds {
 public:
  PartRounds(const KernelCall& call, const AttendSplit& split, int64_t value_width, int64_t most_parts)
      : split_(split), most_parts_(most_parts) {
    stride_ = AttendTaskRun::part_floats(split.item_rows(), value_width);
    joined_stride_ = AttendTaskRun::joined_doubles(split.item_rows(), value_width);
    joined_ = reinterpret_cast<double*>(call.workspace.data());
    parts_ = reinterpret_cast<float*>(joined_ + split.num_items() * joined_stride_);
    const int64_t left = static_cast<int64_t>(call.workspace.size()) - split.num_items() * joined_stride_ * 8;
    at_once_ = left / (split.num_items() * stride_ * 4);
    FL_CHECK(at_once_ > 0);
  }

  void run(AttendTaskRun& task_run, Worker& worker) {
    for (int64_t first = 0; first < most_parts_; first += at_once_) {
      if (first > 0) worker.barrier();
      run_round(task_run, worker, first, std::min(at_once_, most_parts_ - first));
    }
  }

 private:
  void run_round(AttendTaskRun& task_run, Worker& worker, int64_t first, int64_t count) {
    const int64_t items = split_.num_items();
    for (int64_t i = worker.index(); i < items * count; i += worker.count()) {
      const AttendItem item = split_.item(i % items);
      const int64_t part = first + i / items;
      const int64_t next = i + worker.count();
      if (next < items * count) task_run.foresee(split_.item(next % items), first + next / items);
      if (part < split_.num_parts(item)) task_run.run_part(item, part, parts_ + i * stride_);
    }
    worker.barrier();
    join_rows(task_run, worker, first, count);
  }

  // A worker's share of the rows of all items, as if each item had the most: the same rows in each round.
  void join_rows(AttendTaskRun& task_run, Worker& worker, int64_t first, int64_t count) {
    const int64_t most_rows = split_.item_rows();
    const auto [begin, end] = worker.share(split_.num_items() * most_rows);
    for (int64_t i = begin / most_rows; i * most_rows < end; ++i) {
      const AttendItem item = split_.item(i);
      const ops::RowRange rows{std::max<int64_t>(begin - i * most_rows, 0),
                               std::min(end - i * most_rows, task_run.rows_of(item))};
      if (rows.begin >= rows.end) continue;
      double* joined = joined_ + i * joined_stride_;
      if (first == 0) task_run.start_joined(item, rows, joined);
      const int64_t last = std::min(first + count, split_.num_parts(item));
      for (int64_t p = first; p < last; ++p) {
        task_run.join(item, rows, parts_ + ((p - first) * split_.num_items() + i) * stride_, joined);
      }
      if (first + count >= most_parts_) task_run.store_result(item, rows, joined);
    }
  }

  const AttendSplit& split_;
  int64_t most_parts_;
  int64_t stride_, joined_stride_, at_once_;
  double* joined_;
  float* parts_;
};

int64_t enough_items(int64_t num_workers) { return 2 * num_workers; }

template <const AttendForm& (*kForm)(), bool kRounds>
void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const CpuAttendOptions&>(*call.prepared);
  const auto key = static_cast<size_t>(options.attend().segments[0].key);
  const AttendSplit split(options.attend(), *call.batch, call.inputs[0].dim(1), call.states[0]->components[key].heads,
                          kRounds ? AttendSplit::kPairQueryRows : AttendSplit::kQueryRows);
  if (split.num_items() == 0) return;
  AttendTaskRun task_run(call, options, kForm(), split, kRounds, worker);
  const bool few = split.num_items() < enough_items(worker.count());
  if (const int64_t most_parts = few && worker.count() > 1 ? split.most_parts() : 0; most_parts > 1) {
    return PartRounds(call, split, options.attend().value_width, most_parts).run(task_run, worker);
  }
  if (few) {  // a decode step of a few heads: a meeting of the workers would cost more than it evens out
    for (int64_t i = worker.index(); i < split.num_items(); i += worker.count()) {
      const int64_t next = i + worker.count();
      if (next < split.num_items()) task_run.foresee(split.item(next), 0);
      task_run.run(split.item(i));
    }
    return;
  }
  worker.reset_tickets();
  for (int64_t i = worker.next_ticket(split.num_items()); i >= 0; i = worker.next_ticket(split.num_items())) {
    task_run.run(split.item(i));
  }
}

// Of what is joined and of two parts each, at least, for as many items as are few; with fewer rows it holds more.
int64_t workspace_bytes(const catalog::Signature& signature, const tensor::SymbolValues&, int num_workers) {
  const int64_t rows = AttendSplit::most_rows(signature.operands[0].shape[1].factor);
  const int64_t width = signature.results[0].shape[2].factor;
  return enough_items(num_workers) * 8 *
         (AttendTaskRun::joined_doubles(rows, width) + AttendTaskRun::part_floats(rows, width));
}

}  // namespace

std::span<const KernelBody> attend_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"attend_f32_f32_avx2", prepare_cpu_attend, run<attend_form_avx2, false>, workspace_bytes},
      {"attend_f32_f32_avx512", prepare_cpu_attend, run<attend_form_avx512, false>, workspace_bytes},
      {"attend_bf16_f32_avx512", prepare_cpu_attend, run<attend_form_avx512, true>, workspace_bytes},
      {"attend_segments_f32_f32_avx2", prepare_cpu_attend, run<attend_form_avx2, false>, workspace_bytes},
      {"attend_segments_f32_f32_avx512", prepare_cpu_attend, run<attend_form_avx512, false>, workspace_bytes},
      {"attend_segments_bf16_f32_avx512", prepare_cpu_attend, run<attend_form_avx512, true>, workspace_bytes}};
  return kBodies;
}

}  // namespace firstlight::kernels
