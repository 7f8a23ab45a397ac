// SPDX-License-Identifier: Apache-2.0
// Runs pieces of prompts through an executor and finds each piece's rows in its outputs again, whatever the chunks and
// batches were: what makes recordings with other pieces comparable row by row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kv/state_cache.h"
#include "runtime/executor.h"

namespace firstlight::align {

using Prompts = std::vector<std::vector<int32_t>>;

// Tokens [start, start + count) of one prompt.
struct Piece {
  size_t prompt = 0;
  int64_t start = 0;
  int64_t count = 0;
};

// The pieces of all prompts in the order they run, those of one inner list in one batch. `chunk` 0: whole prompts.
std::vector<std::vector<Piece>> plan_pieces(const Prompts& prompts, int64_t chunk, bool batched);

class PieceRunner {
 public:
  // Both must outlive it. Errors: those of the state cache.
  static Result<PieceRunner> create(runtime::Executor& executor, const Prompts& prompts);

  // Fills inputs (Executor::input) for the batch that is about to run; rows of piece i begin at `first_row`.
  Status run(std::span<const Piece> pieces);
  // The prompt has been run to its end: its state goes.
  void forget(size_t prompt);

  // Where rows of the given rate (tokens per row) of each piece of a batch lie.
  struct Rows {
    size_t prompt = 0;
    int64_t first_in_batch = 0;
    int64_t first_in_prompt = 0;
    int64_t count = 0;
  };
  static std::vector<Rows> rows_of(std::span<const Piece> pieces, int64_t rate);

 private:
  PieceRunner(runtime::Executor& executor, const Prompts& prompts, kv::StateCache cache);

  runtime::Executor* executor_;
  const Prompts* prompts_;
  kv::StateCache cache_;
  std::vector<kv::SequenceId> ids_;  // per prompt; -1: not begun
};

// Rows [first, first + count) of a view.
tensor::View row_range(const tensor::View& view, int64_t first, int64_t count);

}  // namespace firstlight::align
