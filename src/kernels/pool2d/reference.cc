// SPDX-License-Identifier: Apache-2.0
// pool2d: each window walked once.
#include <cmath>
#include <limits>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"
#include "ops/vision/window2d.h"

namespace firstlight::kernels {
namespace {

struct Options final : Prepared {
  ops::Window2d window;
  bool is_max = false;
  bool count_padding = true;
};

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const ops::Attributes& attributes = input.signature.attributes;
  const std::vector<int64_t>& kernel = attributes.get_ints("kernel");
  options->window = FL_TRY(ops::window2d(ops::OpKind::kPool2d, attributes, kernel.front(), kernel.back()));
  options->is_max = attributes.get_string("op") == "max";
  options->count_padding = attributes.get_bool("count_padding");
  return std::unique_ptr<Prepared>(std::move(options));
}

float pooled(const float* plane, int64_t height, int64_t width, const Options& options, int64_t i, int64_t j) {
  const ops::Window2d& window = options.window;
  double value = options.is_max ? -std::numeric_limits<double>::infinity() : 0.0;
  int64_t count = 0;
  for (int64_t a = 0; a < window.kernel[0]; ++a) {
    const int64_t y = i * window.stride[0] + a - window.pad[0];
    for (int64_t b = 0; b < window.kernel[1]; ++b) {
      const int64_t x = j * window.stride[1] + b - window.pad[2];
      if (y < 0 || y >= height || x < 0 || x >= width) continue;
      ++count;
      const auto element = static_cast<double>(plane[y * width + x]);
      if (!options.is_max) {
        value += element;
      } else if (element > value || std::isnan(element)) {
        value = element;
      }
    }
  }
  if (options.is_max) return static_cast<float>(value);
  return static_cast<float>(value / static_cast<double>(options.count_padding ? window.kernel[0] * window.kernel[1]
                                                                              : std::max<int64_t>(count, 1)));
}

void run(const KernelCall& call, Worker& worker) {
  const auto& options = static_cast<const Options&>(*call.prepared);
  const tensor::View& x = call.inputs[0];
  const tensor::View& out = call.outputs[0];
  const int64_t height = x.dim(2), width = x.dim(3), rows = out.dim(2), columns = out.dim(3);
  std::vector<float> plane(static_cast<size_t>(height * width));
  for_rows(worker, x.dim(0) * x.dim(1), [&](int64_t index) {
    decode_elements(x, index * height * width, height * width, plane.data());
    float* to = out.as<float>() + index * rows * columns;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = pooled(plane.data(), height, width, options, i, j);
    }
  });
}

}  // namespace

KernelBody pool2d_reference() {
  KernelBody body;
  body.symbol = "pool2d_any_f32_ref";
  body.prepare = prepare;
  body.run = run;
  return body;
}

}  // namespace firstlight::kernels
