// SPDX-License-Identifier: Apache-2.0
// How one attend call is cut. An item is a block of query tokens of one sequence against one key/value head (all query
// heads that share the head together; one token where rows are selected). Its keys are cut into parts at fixed rows of
// each segment, whatever the batch or the workers: a query's parts are joined in order, so that its sums are the same
// whether one worker walked them all or several did.
#pragma once

#include "kernels/attend/options.h"
#include "plan/batch.h"

namespace firstlight::kernels {

struct AttendItem {
  size_t sequence = 0;
  int64_t kv_head = 0;
  int64_t first_token = 0;  // of the sequence's tokens in the batch
  int64_t num_tokens = 0;
};

// Candidates of one segment: its rows, or the places of its selection.
struct AttendPart {
  size_t segment = 0;
  ops::RowRange range{0, 0};
};

class AttendSplit {
 public:
  // Query rows of an item (tokens times heads per key/value head) in float32, and in pairs of bfloat16, where the more
  // there are, the more share the pairs that a block is turned into.
  static constexpr int64_t kQueryRows = 48;
  static constexpr int64_t kPairQueryRows = 96;
  static constexpr int64_t kPartKeys = 256;  // a part ends where row (or place) numbers are multiples of it

  AttendSplit(const AttendOptions& options, const plan::Batch& batch, int64_t heads, int64_t kv_heads,
              int64_t query_rows = kQueryRows);

  int64_t num_items() const { return num_items_; }
  int64_t group() const { return group_; }          // query heads per key/value head
  int64_t item_rows() const { return item_rows_; }  // the most query rows of an item in this batch
  int64_t most_parts() const;                       // of an item; looks at each

  // The last tokens of a sequence come first: they see most keys.
  AttendItem item(int64_t index) const;
  int64_t num_parts(const AttendItem& item) const;
  AttendPart part(const AttendItem& item, int64_t index) const;

  // Rows of a segment that some query of the item may see, its selection apart.
  ops::RowRange rows(const AttendItem& item, size_t segment) const;

  // Upper bound of query rows in an item.
  static int64_t most_rows(int64_t heads) { return heads > kPairQueryRows ? heads : kPairQueryRows; }

 private:
  int64_t blocks_of(const plan::SequenceSpan& sequence) const {
    return (sequence.num_tokens + tokens_per_block_ - 1) / tokens_per_block_;
  }
  ops::RowRange candidates(const AttendItem& item, size_t segment) const;

  const AttendOptions& options_;
  const plan::Batch& batch_;
  int64_t kv_heads_;
  int64_t group_;
  int64_t tokens_per_block_;
  int64_t num_items_ = 0;
  int64_t item_rows_ = 0;
};

}  // namespace firstlight::kernels
