// SPDX-License-Identifier: Apache-2.0
// top_k: a partial sort of indices.
#include <cmath>
#include <numeric>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const int64_t n = row_elements(x);
  const int64_t k = row_elements(call.outputs[0]);
  std::vector<int32_t> order(static_cast<size_t>(n));
  for_rows(worker, x.num_rows(), [&](int64_t r) {
    const float* values = x.as<const float>() + r * n;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) {
      const bool a_is_nan = std::isnan(values[a]);
      const bool b_is_nan = std::isnan(values[b]);
      if (a_is_nan != b_is_nan) return b_is_nan;
      if (!a_is_nan && values[a] != values[b]) return values[a] > values[b];
      return a < b;
    });
    for (int64_t j = 0; j < k; ++j) {
      const int32_t at = order[static_cast<size_t>(j)];
      call.outputs[0].as<float>()[r * k + j] = values[at];
      call.outputs[1].as<int32_t>()[r * k + j] = at;
    }
  });
}

}  // namespace

KernelBody top_k_reference() {
  KernelBody body;
  body.symbol = "top_k_f32_f32_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
