// SPDX-License-Identifier: Apache-2.0
// Time to first token and throughput of a loaded model, over prompt lengths, context depths and batches.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/executor.h"

namespace firstlight::gates {

struct BenchmarkOptions {
  std::vector<int64_t> prompts = {512};
  std::vector<int64_t> depths = {0};   // tokens already in the context when the prompt comes
  std::vector<int64_t> batches = {1};  // sequences decoded together; their prompts come one after the other
  int64_t decode_tokens = 128;         // per sequence
  std::function<void()> row_done;
};

struct BenchmarkRow {
  int64_t prompt = 0, depth = 0, batch = 0;
  double ttft_s = 0;      // of one sequence: its prompt, and the first token's logits
  double prompt_tps = 0;  // prompt tokens per second, over all sequences
  double decode_tps = 0;  // generated tokens per second, over all sequences
};

// All tokens, generated ones too, are random from a fixed seed; sampling is not part of the times. One short run warms
// up. Errors: kInvalidArgument for a length or a batch out of range, or a model without logits.
Result<std::vector<BenchmarkRow>> benchmark(runtime::Executor& executor, const BenchmarkOptions& options);

}  // namespace firstlight::gates
