// SPDX-License-Identifier: Apache-2.0
// conv2d: the sum written out, in float64; workers share images and filters.
#include "kernels/bodies.h"
#include "kernels/common/rows.h"
#include "ops/vision/window2d.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  ops::Window2d window;
  int64_t groups = 1;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const tensor::Shape& weight = input.signature.operands[1].shape;
  options->window =
      FL_TRY(ops::window2d(ops::OpKind::kConv2d, input.signature.attributes, weight[2].factor, weight[3].factor));
  options->groups = input.signature.attributes.get_int("groups");
  return std::unique_ptr<Prepared>(std::move(options));
}

// The sum of one channel's taps at a place of the result.
double taps(const float* image, int64_t height, int64_t width, const float* weight, const ops::Window2d& window,
            int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t a = 0; a < window.kernel[0]; ++a) {
    const int64_t y = i * window.stride[0] + a * window.dilation[0] - window.pad[0];
    if (y < 0 || y >= height) continue;
    for (int64_t b = 0; b < window.kernel[1]; ++b) {
      const int64_t x = j * window.stride[1] + b * window.dilation[1] - window.pad[2];
      if (x < 0 || x >= width) continue;
      sum += static_cast<double>(weight[a * window.kernel[1] + b]) * static_cast<double>(image[y * width + x]);
    }
  }
  return sum;
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const tensor::View& out = call.outputs[0];
  const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  const int64_t filters = out.dim(1), rows = out.dim(2), columns = out.dim(3);
  const int64_t per_group = channels / options.groups;
  const int64_t window_size = options.window.kernel[0] * options.window.kernel[1];
  const std::vector<float> weight = decode_vector(call.inputs[1]);
  const std::vector<float> bias = decode_vector(operand(call.inputs, 2));
  std::vector<float> planes(static_cast<size_t>(per_group * height * width));
  for_rows(worker, x.dim(0) * filters, [&](int64_t index) {
    const int64_t image = index / filters, filter = index % filters;
    const int64_t first = filter / (filters / options.groups) * per_group;
    decode_elements(x, (image * channels + first) * height * width, per_group * height * width, planes.data());
    float* to = out.as<float>() + index * rows * columns;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<size_t>(filter)]);
        for (int64_t c = 0; c < per_group; ++c) {
          sum += taps(planes.data() + c * height * width, height, width,
                      weight.data() + (filter * per_group + c) * window_size, options.window, i, j);
        }
        to[i * columns + j] = static_cast<float>(sum);
      }
    }
  });
}

}  // namespace

KernelBody conv2d_reference() {
  KernelBody body;
  body.symbol = "conv2d_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
