// SPDX-License-Identifier: Apache-2.0
// Perplexity of a token sequence, in windows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "runtime/executor.h"

namespace firstlight::gates {

struct PerplexityOptions {
  int64_t window = 512;        // tokens a window holds, BOS included
  int64_t stride = 512;        // tokens from the start of one window to that of the next
  std::optional<int32_t> bos;  // put in front of each window
  std::function<void(int64_t done, int64_t total)> progress;
  runtime::Executor* beside = nullptr;  // scores the same rows, and is what divergences are from
};

// Of the executor's distributions from those of the one beside it, row by row.
struct Divergence {
  double perplexity = 0;  // of the one beside
  double mean_kl = 0;     // in nats
  double p99_kl = 0;      // of 99 rows in 100 at most
  double same_top = 0;    // share of rows with the same likeliest token
};

struct Perplexity {
  double perplexity = 0;  // exp of the mean of -log p over the scored tokens
  int64_t scored_tokens = 0;
  int64_t num_windows = 0;
  std::optional<Divergence> divergence;  // with `beside`
};

// A window scores the tokens that no window before it has scored, except its own first when nothing stands in front of
// it (no BOS, no overlap). Errors: kInvalidArgument for fewer than two tokens, a window below 2 or a stride beyond the
// window.
Result<Perplexity> perplexity(runtime::Executor& executor, std::span<const int32_t> tokens,
                              const PerplexityOptions& options);

}  // namespace firstlight::gates
