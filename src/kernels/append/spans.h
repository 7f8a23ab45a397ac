// SPDX-License-Identifier: Apache-2.0
// Which rows a batch adds to a log, sequence by sequence: one per token, or one per group that is completed.
#pragma once

#include "kernels/kernel.h"

namespace firstlight::kernels {

struct AppendOptions final : Prepared {
  int64_t rate = 1;  // tokens per row
};

inline Result<std::unique_ptr<Prepared>> prepare_append(const PrepareInput& input) {
  auto options = std::make_unique<AppendOptions>();
  if (input.state->kind == ops::StateKind::kRateLog) options->rate = input.state->rate;
  return std::unique_ptr<Prepared>(std::move(options));
}

struct AppendSpan {
  size_t sequence;
  int64_t count;      // rows added
  int64_t first_row;  // of the operands
  int64_t first_at;   // row of the state that the first becomes
};

// Calls visit(span) for each sequence of the batch, in order.
template <typename Visit>
void for_append_spans(const KernelCall& call, Visit&& visit) {
  const int64_t rate = static_cast<const AppendOptions&>(*call.prepared).rate;
  int64_t row = 0;
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const plan::SequenceSpan& sequence = call.batch->sequences[s];
    const AppendSpan span{s, plan::groups_completed(sequence, rate), row, sequence.start_position / rate};
    visit(span);
    row += span.count;
  }
}

}  // namespace firstlight::kernels
