// SPDX-License-Identifier: Apache-2.0
// The reference recur_selective: channel by channel, one token after the other, in float64.
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/fixed_state.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const int64_t channels = call.inputs[0].dim(1);
  const int64_t states = call.inputs[3].dim(1);
  const std::vector<float> a = decode_vector(call.inputs[2]);
  std::vector<double> state(static_cast<size_t>(states));
  for_parts(call, worker, channels, [&](size_t s, const plan::SequenceSpan& sequence, int64_t c) {
    float* stored = fixed_state(call, s) + c * states;
    for (size_t n = 0; n < state.size(); ++n) state[n] = static_cast<double>(stored[n]);
    for (int64_t row = sequence.first_row; row < sequence.first_row + sequence.num_tokens; ++row) {
      const auto x = static_cast<double>(call.inputs[0].as<const float>()[row * channels + c]);
      const auto dt = static_cast<double>(call.inputs[1].as<const float>()[row * channels + c]);
      const float* b = call.inputs[3].as<const float>() + row * states;
      const float* out = call.inputs[4].as<const float>() + row * states;
      double sum = 0;
      for (size_t n = 0; n < state.size(); ++n) {
        const auto rate = static_cast<double>(a[static_cast<size_t>(c * states) + n]);
        state[n] = std::exp(dt * rate) * state[n] + dt * static_cast<double>(b[n]) * x;
        sum += static_cast<double>(out[n]) * state[n];
      }
      call.outputs[0].as<float>()[row * channels + c] = static_cast<float>(sum);
    }
    for (size_t n = 0; n < state.size(); ++n) stored[n] = static_cast<float>(state[n]);
  });
}

}  // namespace

KernelBody recur_selective_reference() {
  KernelBody body;
  body.symbol = "recur_selective_f32_f32_ref";
  body.prepare = prepare_fixed_state;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
