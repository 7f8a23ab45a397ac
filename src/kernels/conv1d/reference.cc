// SPDX-License-Identifier: Apache-2.0
// The reference conv1d: every tap of every channel, summed in float64.
#include "kernels/bodies.h"
#include "kernels/common/rows.h"
#include "kernels/conv1d/options.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Conv1dOptions&>(*call.prepared);
  const int64_t channels = call.inputs[0].dim(1);
  const int64_t taps = call.inputs[1].dim(1);
  const int64_t kept = (taps - 1) * options.dilation;
  const std::vector<float> weight = decode_vector(call.inputs[1]);
  const std::vector<float> bias = decode_vector(operand(call.inputs, 3));
  const Worker::Range range = worker.share(channels);
  for (size_t s = 0; s < call.batch->sequences.size(); ++s) {
    const plan::SequenceSpan& sequence = call.batch->sequences[s];
    if (sequence.num_tokens == 0) continue;
    float* state = conv1d_state(call, s);
    const float* x = call.inputs[0].as<const float>() + sequence.first_row * channels;
    float* y = call.outputs[0].as<float>() + sequence.first_row * channels;
    for (int64_t t = 0; t < sequence.num_tokens; ++t) {
      for (int64_t c = range.begin; c < range.end; ++c) {
        double sum = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<size_t>(c)]);
        for (int64_t j = 0; j < taps; ++j) {
          const int64_t row = t - (taps - 1 - j) * options.dilation;
          const float value = row >= 0 ? x[row * channels + c] : state[(kept + row) * channels + c];
          sum += static_cast<double>(weight[static_cast<size_t>(c * taps + j)]) * static_cast<double>(value);
        }
        y[t * channels + c] = static_cast<float>(sum);
      }
    }
    const int64_t count = range.end - range.begin;
    if (count > 0) keep_last_rows(state + range.begin, x + range.begin, sequence.num_tokens, kept, channels, count);
  }
}

}  // namespace

KernelBody conv1d_reference() {
  KernelBody body;
  body.symbol = "conv1d_f32_f32_ref";
  body.prepare = prepare_conv1d;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
