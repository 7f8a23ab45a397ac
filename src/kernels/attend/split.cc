// SPDX-License-Identifier: Apache-2.0
#include "kernels/attend/split.h"

#include "base/check.h"

namespace firstlight::kernels {

AttendSplit::AttendSplit(const AttendOptions& options, std::vector<int64_t> selected, const plan::Batch& batch,
                         int64_t heads, int64_t kv_heads, int num_workers)
    : options_(options), selected_(std::move(selected)), batch_(batch), kv_heads_(kv_heads), group_(heads / kv_heads) {
  const bool selects = std::any_of(selected_.begin(), selected_.end(), [](int64_t count) { return count > 0; });
  tokens_per_block_ = selects ? 1 : std::max<int64_t>(1, kQueryRows / group_);
  int64_t most_keys = 0;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const plan::SequenceSpan& sequence = batch.sequences[s];
    num_items_ += blocks_of(sequence) * kv_heads;
    if (sequence.num_tokens == 0) continue;
    AttendTask last{.sequence = s};
    last.first_token = (blocks_of(sequence) - 1) * tokens_per_block_;
    last.num_tokens = sequence.num_tokens - last.first_token;
    most_keys = std::max(most_keys, all_candidates(last));
  }
  const int64_t wanted = 2 * static_cast<int64_t>(num_workers);
  // Where keys were cut, sums would be rounded: an invariant batch has all of a query's keys in one task.
  if (batch.invariant || num_workers == 1 || num_items_ == 0 || num_items_ >= wanted) return;
  num_parts_ = std::clamp<int64_t>(most_keys / kLeastKeys, 1, (wanted + num_items_ - 1) / num_items_);
  FL_CHECK(num_tasks() <= most_split_tasks(num_workers));
}

ops::RowRange AttendSplit::rows(const AttendTask& task, size_t segment) const {
  const plan::SequenceSpan& sequence = batch_.sequences[task.sequence];
  const int64_t length = sequence.start_position + sequence.num_tokens;
  const int64_t first = sequence.start_position + task.first_token;
  const ops::RowRange early = visible_rows(options_.segments[segment], first, length);
  const ops::RowRange late = visible_rows(options_.segments[segment], first + task.num_tokens - 1, length);
  return {early.begin, std::max(early.begin, late.end)};
}

int64_t AttendSplit::candidates(const AttendTask& task, size_t segment) const {
  const ops::KeySegment& rules = options_.segments[segment].rules;
  if (rules.select_operand >= 0) return selected_[segment] * rules.select_block;
  const ops::RowRange range = rows(task, segment);
  return range.end - range.begin;
}

int64_t AttendSplit::all_candidates(const AttendTask& task) const {
  int64_t count = 0;
  for (size_t s = 0; s < options_.segments.size(); ++s) count += candidates(task, s);
  return count;
}

AttendTask AttendSplit::task(int64_t index) const {
  AttendTask task;
  task.part = index % num_parts_;
  int64_t item = index / num_parts_;
  while (item >= blocks_of(batch_.sequences[task.sequence]) * kv_heads_) {
    item -= blocks_of(batch_.sequences[task.sequence]) * kv_heads_;
    ++task.sequence;
  }
  const plan::SequenceSpan& sequence = batch_.sequences[task.sequence];
  task.kv_head = item % kv_heads_;
  task.first_token = (blocks_of(sequence) - 1 - item / kv_heads_) * tokens_per_block_;
  task.num_tokens = std::min(tokens_per_block_, sequence.num_tokens - task.first_token);

  const int64_t end = all_candidates(task);
  const int64_t part = (end + num_parts_ - 1) / num_parts_;
  task.keys.begin = std::min(end, task.part * part);
  task.keys.end = std::min(end, task.keys.begin + part);
  return task;
}

}  // namespace firstlight::kernels
