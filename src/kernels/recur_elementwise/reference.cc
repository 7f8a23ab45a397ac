// SPDX-License-Identifier: Apache-2.0
// The reference recur_elementwise: channel by channel, one token after the other, in float64.
#include "kernels/bodies.h"
#include "kernels/common/fixed_state.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const int64_t channels = call.inputs[0].dim(1);
  for_parts(call, worker, channels, [&](size_t s, const plan::SequenceSpan& sequence, int64_t c) {
    float* stored = fixed_state(call, s) + c;
    auto h = static_cast<double>(*stored);
    for (int64_t row = sequence.first_row; row < sequence.first_row + sequence.num_tokens; ++row) {
      const int64_t at = row * channels + c;
      h = static_cast<double>(call.inputs[0].as<const float>()[at]) * h +
          static_cast<double>(call.inputs[1].as<const float>()[at]);
      call.outputs[0].as<float>()[at] = static_cast<float>(h);
    }
    *stored = static_cast<float>(h);
  });
}

}  // namespace

KernelBody recur_elementwise_reference() {
  KernelBody body;
  body.symbol = "recur_elementwise_f32_f32_ref";
  body.prepare = prepare_fixed_state;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
