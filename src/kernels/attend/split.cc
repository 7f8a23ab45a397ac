// SPDX-License-Identifier: Apache-2.0
#include "kernels/attend/split.h"

#include "base/check.h"

namespace firstlight::kernels {

AttendSplit::AttendSplit(const AttendOptions& options, const plan::Batch& batch, int64_t heads, int64_t kv_heads,
                         int num_workers)
    : options_(options), batch_(batch), kv_heads_(kv_heads), group_(heads / kv_heads) {
  tokens_per_block_ = std::max<int64_t>(1, kQueryRows / group_);
  int64_t most_keys = 0;
  for (const plan::SequenceSpan& sequence : batch.sequences) {
    num_items_ += blocks_of(sequence) * kv_heads;
    const int64_t length = sequence.start_position + sequence.num_tokens;
    const int64_t window = options.window > 0 ? options.window + tokens_per_block_ : length;
    most_keys = std::max(most_keys, std::min(length, window));
  }
  const int64_t wanted = 2 * static_cast<int64_t>(num_workers);
  if (num_workers == 1 || num_items_ == 0 || num_items_ >= wanted) return;
  num_parts_ = std::clamp<int64_t>(most_keys / kLeastKeys, 1, (wanted + num_items_ - 1) / num_items_);
  FL_CHECK(num_tasks() <= most_split_tasks(num_workers));
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

  const int64_t length = sequence.start_position + sequence.num_tokens;
  const int64_t first = sequence.start_position + task.first_token;
  const int64_t begin = visible_range(options_, first, length).begin;
  const int64_t end = visible_range(options_, first + task.num_tokens - 1, length).end;
  const int64_t part = (end - begin + num_parts_ - 1) / num_parts_;
  task.keys.begin = std::min(end, begin + task.part * part);
  task.keys.end = std::min(end, task.keys.begin + part);
  return task;
}

}  // namespace firstlight::kernels
