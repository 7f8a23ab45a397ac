// SPDX-License-Identifier: Apache-2.0
#include "kernels/attend/split.h"

#include "base/check.h"

namespace firstlight::kernels {

namespace {

int64_t parts_of(const ops::RowRange& range) {
  if (range.end <= range.begin) return 0;
  return (range.end - 1) / AttendSplit::kPartKeys - range.begin / AttendSplit::kPartKeys + 1;
}

}  // namespace

AttendSplit::AttendSplit(const AttendOptions& options, const plan::Batch& batch, int64_t heads, int64_t kv_heads,
                         int64_t query_rows)
    : options_(options), batch_(batch), kv_heads_(kv_heads), group_(heads / kv_heads) {
  const bool selects = std::any_of(options.segments.begin(), options.segments.end(),
                                   [](const SegmentOptions& segment) { return segment.rules.select_operand >= 0; });
  tokens_per_block_ = selects ? 1 : std::max<int64_t>(1, query_rows / group_);
  for (const plan::SequenceSpan& sequence : batch.sequences) {
    num_items_ += blocks_of(sequence) * kv_heads;
    item_rows_ = std::max(item_rows_, std::min(tokens_per_block_, sequence.num_tokens) * group_);
  }
}

int64_t AttendSplit::most_parts() const {
  int64_t most = 0;
  for (int64_t i = 0; i < num_items_; ++i) most = std::max(most, num_parts(item(i)));
  return most;
}

ops::RowRange AttendSplit::rows(const AttendItem& item, size_t segment) const {
  const plan::SequenceSpan& sequence = batch_.sequences[item.sequence];
  const int64_t length = sequence.start_position + sequence.num_tokens;
  const int64_t first = sequence.start_position + item.first_token;
  const ops::RowRange early = visible_rows(options_.segments[segment], first, length);
  const ops::RowRange late = visible_rows(options_.segments[segment], first + item.num_tokens - 1, length);
  return {early.begin, std::max(early.begin, late.end)};
}

ops::RowRange AttendSplit::candidates(const AttendItem& item, size_t segment) const {
  return options_.segments[segment].rules.select_operand < 0 ? rows(item, segment)
                                                             : ops::RowRange{0, options_.segments[segment].places};
}

int64_t AttendSplit::num_parts(const AttendItem& item) const {
  int64_t count = 0;
  for (size_t s = 0; s < options_.segments.size(); ++s) count += parts_of(candidates(item, s));
  return count;
}

AttendPart AttendSplit::part(const AttendItem& item, int64_t index) const {
  for (size_t s = 0; s < options_.segments.size(); ++s) {
    const ops::RowRange all = candidates(item, s);
    const int64_t count = parts_of(all);
    if (index >= count) {
      index -= count;
      continue;
    }
    const int64_t number = all.begin / kPartKeys + index;
    return {s, {std::max(all.begin, number * kPartKeys), std::min(all.end, (number + 1) * kPartKeys)}};
  }
  return {};
}

AttendItem AttendSplit::item(int64_t index) const {
  AttendItem item;
  while (index >= blocks_of(batch_.sequences[item.sequence]) * kv_heads_) {
    index -= blocks_of(batch_.sequences[item.sequence]) * kv_heads_;
    ++item.sequence;
  }
  const plan::SequenceSpan& sequence = batch_.sequences[item.sequence];
  item.kv_head = index % kv_heads_;
  item.first_token = (blocks_of(sequence) - 1 - index / kv_heads_) * tokens_per_block_;
  item.num_tokens = std::min(tokens_per_block_, sequence.num_tokens - item.first_token);
  return item;
}

}  // namespace firstlight::kernels
