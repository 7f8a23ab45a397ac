// SPDX-License-Identifier: Apache-2.0
// The reference linear: each weight row decoded once per call, products summed in float64, one rounding.
#include "kernels/common/dot.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const tensor::View& w = call.inputs[1];
  const std::vector<float> bias = decode_vector(operand(call.inputs, 2));
  const int64_t tokens = x.num_rows();
  const int64_t k = row_elements(x);
  const int64_t rows = w.dim(0);
  float* out = call.outputs[0].as<float>();
  if (tokens == 0) return;
  std::vector<float> row(static_cast<size_t>(k));
  for_rows(worker, rows, [&](int64_t r) {
    decode_row(w, r, row.data());
    const double shift = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<size_t>(r)]);
    for (int64_t t = 0; t < tokens; ++t) {
      out[t * rows + r] = static_cast<float>(dot_f64(x.as<const float>() + t * k, row.data(), k) + shift);
    }
  });
}

}  // namespace

KernelBody linear_reference() {
  KernelBody body;
  body.symbol = "linear_any_f32_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
