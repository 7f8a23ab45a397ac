// SPDX-License-Identifier: Apache-2.0
// recur_gla on the CPU, chunks of tokens as matrix products (kernels/recurrence/matrix_tiles.h).
#include "kernels/bodies.h"
#include "kernels/recurrence/matrix.h"

namespace firstlight::kernels {
namespace {

template <const RecurrenceForm& (*kForm)()>
void run(const KernelCall& call, Worker& worker) {
  run_matrix_recurrence(call, worker, kForm(), {.beta = -1, .bonus = 5});
}

}  // namespace

std::span<const KernelBody> recur_gla_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {
      {"recur_gla_f32_f32_avx2", prepare_fixed_state, run<recurrence_form_avx2>, nullptr},
      {"recur_gla_f32_f32_avx512", prepare_fixed_state, run<recurrence_form_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
