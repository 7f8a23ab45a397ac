// SPDX-License-Identifier: Apache-2.0
// Runs the head that a checkpoint has for guessing further tokens (multi-token prediction; DeepSeek-AI,
// arXiv:2412.19437, 2.2) over rows of several sequences. Row i of a sequence takes what the model's own head saw at
// token i, and token i + 1, and guesses token i + 2. Knows no requests: whose rows, and what becomes of the guess, is
// the engine's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/state_cache.h"
#include "runtime/executor.h"

namespace firstlight::engine {

class Predictor {
 public:
  // Rows first, first + 1, … of one sequence, which have room in its state.
  struct Part {
    kv::SequenceId state = -1;
    int64_t first = 0;
    int64_t planned_length = 0;
    std::span<const int32_t> tokens;  // the token behind each row
    std::span<const float> hidden;    // [rows, hidden_width]
    bool guesses = false;             // wants what follows the last row:
    int32_t guess = -1;               // the likeliest token; -1: the logits are no numbers
    std::vector<float> next_hidden;   // to go on from
  };

  // `head` is the plan of intake::Model::predictor and outlives this; its states are the last of `cache`'s, the first
  // `num_own` being the model's.
  Predictor(runtime::Executor& head, size_t num_own);

  // As many steps as it takes; parts that are larger than one come in pieces. Errors: those of the executor.
  Status run(std::span<Part> parts, kv::StateCache& cache);

  int64_t hidden_width() const { return width_; }
  const plan::Plan& plan() const { return head_.plan(); }

 private:
  struct Piece {
    Part* part;
    int64_t start, count;  // rows of the part
  };
  Status run_step(std::span<const Piece> pieces, kv::StateCache& cache);
  void take_guess(Part& part, size_t row) const;

  runtime::Executor& head_;
  size_t num_own_;
  int64_t width_ = 0, vocabulary_ = 0;
};

}  // namespace firstlight::engine
