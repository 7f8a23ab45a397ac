// SPDX-License-Identifier: Apache-2.0
// How one attend call is cut into tasks: per sequence and key/value head, blocks of query tokens (all query heads that
// share the head together; one token where rows are selected), and, when that gives too few tasks for the workers,
// parts of the keys as well. The keys of a task are its segments' candidates one after another: a segment's visible
// rows, or the places of its selection.
#pragma once

#include "kernels/attend/options.h"
#include "plan/batch.h"

namespace firstlight::kernels {

struct AttendTask {
  size_t sequence = 0;
  int64_t kv_head = 0;
  int64_t first_token = 0;  // of the sequence's tokens in the batch
  int64_t num_tokens = 0;
  int64_t part = 0;
  ops::RowRange keys{0, 0};  // of this part, counted over all segments
};

class AttendSplit {
 public:
  static constexpr int64_t kQueryRows = 32;   // query rows of a task: tokens times heads per key/value head
  static constexpr int64_t kLeastKeys = 256;  // a part of the keys is not made shorter

  // `selected`: per segment how many numbers each query's selection has; 0 where there is none.
  AttendSplit(const AttendOptions& options, std::vector<int64_t> selected, const plan::Batch& batch, int64_t heads,
              int64_t kv_heads, int num_workers);

  int64_t num_parts() const { return num_parts_; }
  int64_t num_items() const { return num_items_; }  // tasks without their parts
  int64_t num_tasks() const { return num_items_ * num_parts_; }
  int64_t group() const { return group_; }  // query heads per key/value head

  // Task `index`; the parts of an item follow each other. The last tokens of a sequence come first: they see most keys.
  AttendTask task(int64_t index) const;

  // Rows of a segment that some query of the task may see, its selection apart.
  ops::RowRange rows(const AttendTask& task, size_t segment) const;
  // Candidates of a segment for the task: its rows, or the places of its selection.
  int64_t candidates(const AttendTask& task, size_t segment) const;

  // Upper bound of num_tasks() when there is more than one part, and of query rows in a task.
  static int64_t most_split_tasks(int num_workers) { return 4 * static_cast<int64_t>(num_workers); }
  static int64_t most_rows(int64_t heads) { return heads > kQueryRows ? heads : kQueryRows; }

 private:
  int64_t blocks_of(const plan::SequenceSpan& sequence) const {
    return (sequence.num_tokens + tokens_per_block_ - 1) / tokens_per_block_;
  }
  int64_t all_candidates(const AttendTask& task) const;

  const AttendOptions& options_;
  std::vector<int64_t> selected_;
  const plan::Batch& batch_;
  int64_t kv_heads_;
  int64_t group_;
  int64_t tokens_per_block_;
  int64_t num_items_ = 0;
  int64_t num_parts_ = 1;
};

}  // namespace firstlight::kernels
