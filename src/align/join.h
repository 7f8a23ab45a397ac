// SPDX-License-Identifier: Apache-2.0
// Recordings of the ranks of a sharded run, put together to the recording of the whole model: columns beside one
// another (tensor parallel), terms added (before an all-reduce), rows in their places (sequence, context and expert
// parallel), layers behind one another (pipeline). What several ranks have is checked to be the same.
// docs/golden_pack.md says what of a pack survives exactly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "align/pack.h"

namespace firstlight::align {

// A value that ranks should have alike, and do not.
struct ReplicaFinding {
  std::string name;
  int64_t rank_a = 0, rank_b = 0;
  double rel_l2 = 0;  // of the two; 0 where only what is not measured differs
};

struct Joined {
  Pack pack;  // what differs between replicas is as the lower rank has it
  std::vector<ReplicaFinding> findings;
  // Sums of which not all rows were kept: without histogram and statistics, norms of the other rows estimated.
  std::vector<std::string> unknown;
};

// Errors: kInvalidArgument, naming rank, value, part: a recording that is no rank's, a rank that is missing or there
// twice, other prompts, models, layouts or seeds; a part that is missing, parts that do not fit together, logits as
// terms of a sum without all sampled rows.
Result<Joined> join_ranks(const std::vector<Pack>& ranks);

}  // namespace firstlight::align
