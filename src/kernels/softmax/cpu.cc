// SPDX-License-Identifier: Apache-2.0
// softmax on the CPU, rows shared out over the workers.
#include "kernels/bodies.h"
#include "kernels/common/cpu/row_ops.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

template <const RowOps& (*kOps)()>
void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const int64_t n = row_elements(x);
  for_rows(worker, x.num_rows(), [&](int64_t row) {
    kOps().softmax(x.as<const float>() + row * n, n, call.outputs[0].as<float>() + row * n);
  });
}

}  // namespace

std::span<const KernelBody> softmax_cpu_bodies() {
  static constexpr KernelBody kBodies[] = {{"softmax_f32_f32_avx2", nullptr, run<row_ops_avx2>, nullptr},
                                           {"softmax_f32_f32_avx512", nullptr, run<row_ops_avx512>, nullptr}};
  return kBodies;
}

}  // namespace firstlight::kernels
