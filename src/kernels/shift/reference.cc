// SPDX-License-Identifier: Apache-2.0
// shift: rows move down by one token. Copies only, so the CPU has no other body.
#include <algorithm>
#include <cstring>

#include "kernels/bodies.h"
#include "kernels/common/fixed_state.h"

namespace firstlight::kernels {
namespace {

constexpr int64_t kBlock = 256;  // channels of one task

void run(const KernelCall& call, Worker& worker) {
  const int64_t width = call.inputs[0].dim(1);
  for_parts(call, worker, (width + kBlock - 1) / kBlock, [&](size_t s, const plan::SequenceSpan& sequence, int64_t p) {
    const int64_t first = p * kBlock;
    const auto bytes = static_cast<size_t>(std::min(kBlock, width - first)) * sizeof(float);
    const float* x = call.inputs[0].as<const float>() + sequence.first_row * width + first;
    float* y = call.outputs[0].as<float>() + sequence.first_row * width + first;
    float* carried = fixed_state(call, s) + first;
    std::memcpy(y, carried, bytes);
    for (int64_t t = 1; t < sequence.num_tokens; ++t) std::memcpy(y + t * width, x + (t - 1) * width, bytes);
    std::memcpy(carried, x + (sequence.num_tokens - 1) * width, bytes);
  });
}

}  // namespace

KernelBody shift_reference() {
  KernelBody body;
  body.symbol = "shift_f32_f32_ref";
  body.prepare = prepare_fixed_state;
  body.run = run;
  return body;
}

std::span<const KernelBody> shift_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"shift_f32_f32_cpu", prepare_fixed_state, run, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
