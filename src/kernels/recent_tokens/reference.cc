// SPDX-License-Identifier: Apache-2.0
// recent_tokens: the batch's ids go into the pages, the ids before them come out of the batch or the pages. It moves
// integers, so the CPU has no other.
#include "kernels/bodies.h"
#include "kernels/common/pages.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

int32_t* history_row(const KernelCall& call, size_t s, int64_t position) {
  return reinterpret_cast<int32_t*>(state_row(*call.state, call.state->components[0], s, position, 0));
}

// Rows of the batch are read from the operand, earlier ones from the pages: no worker reads what another writes.
void run(const KernelCall& call, Worker& worker) {
  const auto* tokens = call.inputs[0].as<const int32_t>();
  const int64_t count = call.outputs[0].dim(1);
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const plan::SequenceSpan& sequence = call.batch->sequences[s];
    for_rows(worker, sequence.num_tokens, [&](int64_t i) {
      int32_t* out = call.outputs[0].as<int32_t>() + (sequence.first_row + i) * count;
      for (int64_t j = 0; j < count; ++j) {
        const int64_t position = sequence.start_position + i - j;
        out[j] = j <= i ? tokens[sequence.first_row + i - j] : position >= 0 ? *history_row(call, s, position) : -1;
      }
      *history_row(call, s, sequence.start_position + i) = tokens[sequence.first_row + i];
    });
  }
}

}  // namespace

KernelBody recent_tokens_reference() {
  KernelBody body;
  body.symbol = "recent_tokens_i32_i32_ref";
  body.run = run;
  return body;
}

std::span<const KernelBody> recent_tokens_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"recent_tokens_i32_i32_cpu", nullptr, run, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
