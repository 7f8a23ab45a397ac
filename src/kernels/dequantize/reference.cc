// SPDX-License-Identifier: Apache-2.0
// dequantize: one product per element.

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  int64_t block_rows = 1;
  int64_t block_columns = 1;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const std::vector<int64_t>& block = input.signature.attributes.get_ints("block");
  options->block_rows = block[0];
  options->block_columns = block[1];
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& w = call.inputs[0];
  const tensor::View& scale = call.inputs[1];
  const int64_t rows = w.dim(-2);
  const int64_t columns = w.dim(-1);
  const int64_t scale_rows = scale.dim(-2);
  const int64_t scale_columns = scale.dim(-1);
  std::vector<float> scales(static_cast<size_t>(scale_columns));
  for_rows(worker, w.num_rows(), [&](int64_t r) {
    float* out = call.outputs[0].as<float>() + r * columns;
    decode_row(w, r, out);
    decode_row(scale, r / rows * scale_rows + r % rows / options.block_rows, scales.data());
    for (int64_t c = 0; c < columns; ++c) out[c] *= scales[static_cast<size_t>(c / options.block_columns)];
  });
}

}  // namespace

KernelBody dequantize_reference() {
  KernelBody body;
  body.symbol = "dequantize_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
