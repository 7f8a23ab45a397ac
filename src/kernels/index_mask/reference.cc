// SPDX-License-Identifier: Apache-2.0
// index_mask.

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& idx = call.inputs[0];
  const tensor::View& out = call.outputs[0];
  const int64_t k = row_elements(idx);
  const int64_t size = row_elements(out);
  for_rows(worker, out.num_rows(), [&](int64_t r) {
    float* row = out.as<float>() + r * size;
    std::fill_n(row, size, 0.0f);
    for (int64_t j = 0; j < k; ++j) {
      const int64_t at = idx.as<const int32_t>()[r * k + j];
      if (at >= 0 && at < size) row[at] = 1.0f;
    }
  });
}

}  // namespace

KernelBody index_mask_reference() {
  KernelBody body;
  body.symbol = "index_mask_i32_f32_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
