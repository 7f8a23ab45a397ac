// SPDX-License-Identifier: Apache-2.0
// Logits for given tokens, without sampling: what `logits`, `perplexity` and the gates ask for.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "kv/state_cache.h"
#include "runtime/executor.h"

namespace firstlight::engine {

// Gets each wanted row of logits [vocab], in order; the span is valid during the call.
using RowVisitor = std::function<void(int64_t position, std::span<const float> logits)>;

// One sequence that is fed token by token or piece by piece.
class ScoredSequence {
 public:
  // `planned_length`: tokens it will have in the end. `executor` must outlive it.
  static Result<ScoredSequence> create(runtime::Executor& executor, int64_t planned_length);

  // Runs `tokens` behind what it holds, `chunk` at a time (0: as many as a run takes), and visits the rows of positions
  // from `first_row` on. Errors: kInvalidArgument for a token out of range, and for a beginning in pieces where
  // attention sees later tokens (plan/look_ahead.h); the executor's and the state cache's.
  Status feed(std::span<const int32_t> tokens, int64_t chunk, int64_t first_row, const RowVisitor& visit);

  // The same, but visits the rows of the positions in `wanted` alone (ascending). A run that would have more of them
  // than it can give ends earlier.
  Status feed_for_rows(std::span<const int32_t> tokens, int64_t chunk, std::span<const int64_t> wanted,
                       const RowVisitor& visit);

  int64_t length() const { return cache_.length(ids_[0]); }

 private:
  ScoredSequence(runtime::Executor& executor, kv::StateCache cache);
  Status check_tokens(std::span<const int32_t> tokens) const;
  Status check_pieces(size_t tokens, size_t piece) const;
  // `rows`: indices into `tokens`.
  Status run(std::span<const int32_t> tokens, std::span<const int32_t> rows, const RowVisitor& visit);

  runtime::Executor* executor_;
  kv::StateCache cache_;
  std::array<kv::SequenceId, 1> ids_{};
  int64_t planned_length_ = 0;
  int64_t vocab_ = 0;
  std::string output_;        // "logits", or "hidden" where there is no head
  int64_t width_ = 0;         // of its rows
  bool every_token_ = false;  // whether it has a row for each
};

struct ScoreOptions {
  int64_t chunk = 0;      // tokens per run; 0: as many as a run takes. 1 is token-by-token decoding
  int64_t first_row = 0;  // logits of earlier rows are not wanted
};

// Runs `tokens` as one sequence from position 0.
Status score(runtime::Executor& executor, std::span<const int32_t> tokens, const ScoreOptions& options,
             const RowVisitor& visit);

}  // namespace firstlight::engine
