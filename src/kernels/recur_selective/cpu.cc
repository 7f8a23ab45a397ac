// SPDX-License-Identifier: Apache-2.0
// recur_selective on the CPU: a lane per channel, blocks of channels dealt out to the workers.
#include <algorithm>

#include "kernels/bodies.h"
#include "kernels/common/cpu/small_operand.h"
#include "kernels/common/fixed_state.h"
#include "kernels/recurrence/form.h"

namespace firstlight::kernels {
namespace {

template <const RecurrenceForm& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const int64_t channels = call.inputs[0].dim(1), states = call.inputs[3].dim(1);
  float* scratch = scratch_floats(worker, 2 * kChannelBlock * states + channels * states);
  const float* a = small_operand(call.inputs[2], scratch + 2 * kChannelBlock * states);
  const int64_t blocks = (channels + kChannelBlock - 1) / kChannelBlock;
  for_parts(call, worker, blocks, [&](size_t s, const plan::SequenceSpan& sequence, int64_t block) {
    const int64_t first = block * kChannelBlock;
    const int64_t at = sequence.first_row * channels + first;
    kForm().selective({.channels = std::min(kChannelBlock, channels - first),
                       .states = states,
                       .count = sequence.num_tokens,
                       .x = call.inputs[0].as<const float>() + at,
                       .dt = call.inputs[1].as<const float>() + at,
                       .y = call.outputs[0].as<float>() + at,
                       .stride = channels,
                       .a = a + first * states,
                       .b = call.inputs[3].as<const float>() + sequence.first_row * states,
                       .c = call.inputs[4].as<const float>() + sequence.first_row * states,
                       .state = fixed_state(call, s) + first * states,
                       .scratch = scratch});
  });
}

}  // namespace

std::span<const KernelBody> recur_selective_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"recur_selective_f32_f32_avx2", prepare_fixed_state, run<recurrence_form_avx2>, nullptr},
      {"recur_selective_f32_f32_avx512", prepare_fixed_state, run<recurrence_form_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
