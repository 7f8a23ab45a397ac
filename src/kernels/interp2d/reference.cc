// SPDX-License-Identifier: Apache-2.0
// interp2d: separable weights, made once per step; rows first, then columns, in float64.
#include "kernels/bodies.h"
#include "kernels/common/rows.h"
#include "kernels/interp2d/taps.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  std::vector<InterpTaps> rows;
  std::vector<InterpTaps> columns;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const ops::Attributes& attributes = input.signature.attributes;
  const tensor::Shape& shape = input.signature.operands[0].shape;
  const std::vector<int64_t>& size = attributes.get_ints("size");
  options->rows = interp_taps(attributes, shape[2].factor, size[0]);
  options->columns = interp_taps(attributes, shape[3].factor, size[1]);
  return std::unique_ptr<Prepared>(std::move(options));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const int64_t height = x.dim(2), width = x.dim(3);
  const auto rows = static_cast<int64_t>(options.rows.size());
  const auto columns = static_cast<int64_t>(options.columns.size());
  std::vector<float> plane(static_cast<size_t>(height * width));
  std::vector<double> line(static_cast<size_t>(width));
  for_rows(worker, x.dim(0) * x.dim(1), [&](int64_t index) {
    decode_elements(x, index * height * width, height * width, plane.data());
    float* out = call.outputs[0].as<float>() + index * rows * columns;
    for (const InterpTaps& taps : options.rows) {
      std::fill(line.begin(), line.end(), 0.0);
      for (size_t k = 0; k < taps.at.size(); ++k) {
        const float* from = plane.data() + taps.at[k] * width;
        for (size_t i = 0; i < line.size(); ++i) line[i] += taps.weight[k] * static_cast<double>(from[i]);
      }
      for (const InterpTaps& across : options.columns) {
        double sum = 0;
        for (size_t k = 0; k < across.at.size(); ++k) sum += across.weight[k] * line[static_cast<size_t>(across.at[k])];
        *out++ = static_cast<float>(sum);
      }
    }
  });
}

}  // namespace

KernelBody interp2d_reference() {
  KernelBody body;
  body.symbol = "interp2d_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
