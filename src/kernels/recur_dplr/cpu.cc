// SPDX-License-Identifier: Apache-2.0
// recur_dplr on the CPU, token by token (kernels/recurrence/dplr_tiles.h), heads dealt out to the workers.
#include <algorithm>
#include <cstring>

#include "kernels/bodies.h"
#include "kernels/common/cpu/small_operand.h"
#include "kernels/common/fixed_state.h"
#include "kernels/recurrence/form.h"

namespace firstlight::kernels {
namespace {

template <const RecurrenceForm& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  const int64_t heads = call.inputs[0].dim(1), key = call.inputs[0].dim(2), value = call.inputs[3].dim(2);
  const int64_t columns = padded(key);
  const int64_t copy = columns == key ? 0 : value * columns;
  float* scratch = scratch_floats(worker, copy + 6 * columns);
  const auto row_bytes = static_cast<size_t>(key) * sizeof(float);
  for_parts(call, worker, heads, [&](size_t s, const plan::SequenceSpan& sequence, int64_t head) {
    float* stored = fixed_state(call, s) + head * key * value;
    std::fill(scratch, scratch + copy, 0.0f);  // behind the rows too: what the head before left may be no number
    for (int64_t j = 0; copy > 0 && j < value; ++j) std::memcpy(scratch + j * columns, stored + j * key, row_bytes);
    const int64_t at = sequence.first_row * heads + head;
    const auto operand_at = [&](size_t i, int64_t width) { return call.inputs[i].as<const float>() + at * width; };
    kForm().dplr({.key = key,
                  .value = value,
                  .count = sequence.num_tokens,
                  .r = operand_at(0, key),
                  .w = operand_at(1, key),
                  .k = operand_at(2, key),
                  .v = operand_at(3, value),
                  .a = operand_at(4, key),
                  .b = operand_at(5, key),
                  .key_stride = heads * key,
                  .value_stride = heads * value,
                  .y = call.outputs[0].as<float>() + at * value,
                  .state = copy > 0 ? scratch : stored,
                  .state_stride = columns,
                  .scratch = scratch + copy});
    for (int64_t j = 0; copy > 0 && j < value; ++j) std::memcpy(stored + j * key, scratch + j * columns, row_bytes);
  });
}

}  // namespace

std::span<const KernelBody> recur_dplr_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"recur_dplr_f32_f32_avx2", prepare_fixed_state, run<recurrence_form_avx2>, nullptr},
      {"recur_dplr_f32_f32_avx512", prepare_fixed_state, run<recurrence_form_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
