// SPDX-License-Identifier: Apache-2.0
// recur_elementwise on the CPU: a lane per channel, blocks of channels dealt out to the workers.
#include <algorithm>

#include "kernels/bodies.h"
#include "kernels/common/fixed_state.h"
#include "kernels/recurrence/form.h"

namespace firstlight::kernels {
namespace {

constexpr int64_t kBlock = 64;  // channels of one task: whole cache lines

template <const RecurrenceForm& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const int64_t channels = call.inputs[0].dim(1);
  for_parts(call, worker, (channels + kBlock - 1) / kBlock,
            [&](size_t s, const plan::SequenceSpan& sequence, int64_t block) {
              const int64_t first = block * kBlock;
              const int64_t at = sequence.first_row * channels + first;
              kForm().elementwise(call.inputs[0].as<const float>() + at, call.inputs[1].as<const float>() + at,
                                  call.outputs[0].as<float>() + at, channels, sequence.num_tokens,
                                  std::min(kBlock, channels - first), fixed_state(call, s) + first);
            });
}

}  // namespace

std::span<const KernelBody> recur_elementwise_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"recur_elementwise_f32_f32_avx2", prepare_fixed_state, run<recurrence_form_avx2>, nullptr},
      {"recur_elementwise_f32_f32_avx512", prepare_fixed_state, run<recurrence_form_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
