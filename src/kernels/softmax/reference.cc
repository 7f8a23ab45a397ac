// SPDX-License-Identifier: Apache-2.0
// The reference softmax.
#include <cmath>
#include <limits>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const int64_t n = row_elements(x);
  std::vector<float> row(static_cast<size_t>(n));
  std::vector<double> exps(static_cast<size_t>(n));
  for_rows(worker, x.num_rows(), [&](int64_t r) {
    decode_row(x, r, row.data());
    double top = -std::numeric_limits<double>::infinity();
    for (const float value : row) top = std::max(top, static_cast<double>(value));
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      exps[i] = std::exp(static_cast<double>(row[i]) - top);
      sum += exps[i];
    }
    float* out = call.outputs[0].as<float>() + r * n;
    for (size_t i = 0; i < row.size(); ++i) out[i] = static_cast<float>(exps[i] / sum);
  });
}

}  // namespace

KernelBody softmax_reference() {
  KernelBody body;
  body.symbol = "softmax_any_f32_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
