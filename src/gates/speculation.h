// SPDX-License-Identifier: Apache-2.0
// What speculation gains, and what it costs where it is never right: the same requests through an engine that guesses
// ahead and through one that does not, in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace firstlight::gates {

struct SpeculationOptions {
  std::vector<int64_t> prompts = {512};
  std::vector<int64_t> batches = {1};  // requests at once
  int64_t decode_tokens = 128;         // per request
  int64_t draft_tokens = 8;            // guessed ahead at most
  int rounds = 3;                      // of which the median counts
  std::function<void()> row_done;
};

struct SpeculationRow {
  // "repeating": a passage over and over, gone on with greedily. "drawn": tokens that do not repeat, gone on with by
  // drawing at temperature 1. "contrary": of few tokens, whose pairs all repeat, and what followed one the last time is
  // forbidden: what is looked up in the text is never right.
  std::string text;
  int64_t prompt = 0, batch = 0;
  double plain_tps = 0, tps = 0;                  // generated tokens per second over all requests, without and with
  double ratio = 0;                               // median of the rounds' own
  int64_t tokens = 0, drafted = 0, accepted = 0;  // of one round
  bool same = true;                               // every request's tokens, with and without
};

// `predictor`: as engine::Engine::create has it. Errors: kInvalidArgument for lengths out of range, the engine's.
Result<std::vector<SpeculationRow>> benchmark_speculation(runtime::Executor& executor, runtime::Executor* predictor,
                                                          const SpeculationOptions& options);

}  // namespace firstlight::gates
