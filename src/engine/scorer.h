// SPDX-License-Identifier: Apache-2.0
// Logits for given tokens, without sampling: what `logits`, `perplexity` and the gates ask for.
#pragma once

#include <functional>
#include <span>

#include "runtime/executor.h"

namespace firstlight::engine {

struct ScoreOptions {
  int64_t chunk = 0;      // tokens per run; 0: as many as a run takes. 1 is token-by-token decoding
  int64_t first_row = 0;  // logits of earlier rows are not wanted
};

// Runs `tokens` as one sequence from position 0 and hands over each wanted row of logits [vocab], in order. Errors:
// those of the executor and the state cache; kInvalidArgument for a token out of range.
Status score(runtime::Executor& executor, std::span<const int32_t> tokens, const ScoreOptions& options,
             const std::function<void(int64_t row, std::span<const float> logits)>& visit);

}  // namespace firstlight::engine
