// SPDX-License-Identifier: Apache-2.0
// conv1d on the CPU: a lane per channel, blocks of channels dealt out to the workers.
#include <algorithm>

#include "kernels/bodies.h"
#include "kernels/common/cpu/small_operand.h"
#include "kernels/common/fixed_state.h"
#include "kernels/conv1d/options.h"
#include "kernels/recurrence/form.h"

namespace firstlight::kernels {
namespace {

template <const RecurrenceForm& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const int64_t dilation = static_cast<const Conv1dOptions&>(*call.prepared).dilation;
  const int64_t channels = call.inputs[0].dim(1), taps = call.inputs[1].dim(1);
  float* scratch = scratch_floats(worker, channels * (taps + 1));
  const float* weight = small_operand(call.inputs[1], scratch);
  const float* bias = small_operand(operand(call.inputs, 3), scratch + channels * taps);
  const int64_t blocks = (channels + kConvBlock - 1) / kConvBlock;
  for_parts(call, worker, blocks, [&](size_t s, const plan::SequenceSpan& sequence, int64_t block) {
    const int64_t first = block * kConvBlock;
    const int64_t count = std::min(kConvBlock, channels - first);
    const int64_t at = sequence.first_row * channels + first;
    const float* x = call.inputs[0].as<const float>() + at;
    float* state = conv1d_state(call, s) + first;
    kForm().conv1d({.channels = count,
                    .taps = taps,
                    .dilation = dilation,
                    .count = sequence.num_tokens,
                    .x = x,
                    .y = call.outputs[0].as<float>() + at,
                    .stride = channels,
                    .weight = weight + first * taps,
                    .bias = bias == nullptr ? nullptr : bias + first,
                    .before = state});
    keep_last_rows(state, x, sequence.num_tokens, (taps - 1) * dilation, channels, count);
  });
}

}  // namespace

std::span<const KernelBody> conv1d_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"conv1d_f32_f32_avx2", prepare_conv1d, run<recurrence_form_avx2>, nullptr},
      {"conv1d_f32_f32_avx512", prepare_conv1d, run<recurrence_form_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
