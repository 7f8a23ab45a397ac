// SPDX-License-Identifier: Apache-2.0
// The reference batched_linear: as linear, per head.
#include "kernels/common/dot.h"

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

void run(const KernelCall& call, Worker& worker) {
  const tensor::View& x = call.inputs[0];
  const tensor::View& w = call.inputs[1];
  const int64_t tokens = x.dim(0);
  const int64_t heads = x.dim(1);
  const int64_t a = x.dim(2);
  const int64_t b = w.dim(1);
  float* out = call.outputs[0].as<float>();
  if (tokens == 0) return;
  std::vector<float> row(static_cast<size_t>(a));
  for_rows(worker, heads * b, [&](int64_t r) {
    const int64_t head = r / b;
    decode_row(w, r, row.data());
    for (int64_t t = 0; t < tokens; ++t) {
      const float* from = x.as<const float>() + (t * heads + head) * a;
      out[(t * heads + head) * b + r % b] = static_cast<float>(dot_f64(from, row.data(), a));
    }
  });
}

}  // namespace

KernelBody batched_linear_reference() {
  KernelBody body;
  body.symbol = "batched_linear_any_f32_ref";
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
