// SPDX-License-Identifier: Apache-2.0
// The reference layer_norm: float64 throughout, one rounding.
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  double eps = 0;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  options->eps = input.signature.attributes.get_float("eps");
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const std::vector<float> weight = decode_vector(operand(call.inputs, 1));
  const std::vector<float> bias = decode_vector(operand(call.inputs, 2));
  const int64_t n = row_elements(x);
  std::vector<float> row(static_cast<size_t>(n));
  for_rows(worker, x.num_rows(), [&](int64_t r) {
    decode_row(x, r, row.data());
    double mean = 0;
    for (const float value : row) mean += static_cast<double>(value);
    mean /= static_cast<double>(n);
    double squares = 0;
    for (const float value : row) squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    const double root = std::sqrt(squares / static_cast<double>(n) + options.eps);
    float* out = call.outputs[0].as<float>() + r * n;
    for (size_t i = 0; i < row.size(); ++i) {
      const double factor = weight.empty() ? 1.0 : static_cast<double>(weight[i]);
      const double shift = bias.empty() ? 0.0 : static_cast<double>(bias[i]);
      out[i] = static_cast<float>((static_cast<double>(row[i]) - mean) / root * factor + shift);
    }
  });
}

}  // namespace

KernelBody layer_norm_reference() {
  KernelBody body;
  body.symbol = "layer_norm_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
