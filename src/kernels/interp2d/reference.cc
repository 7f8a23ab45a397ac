// SPDX-License-Identifier: Apache-2.0
// interp2d: separable weights, made once per step; rows first, then columns, in float64.
#include <cmath>

#include "kernels/bodies.h"
#include "kernels/common/rows.h"

namespace firstlight::kernels {
namespace {

// The neighbours of one element of the result along an axis.
struct Taps {
  std::vector<int64_t> at;
  std::vector<double> weight;
};

enum class Mode { kNearest, kBilinear, kBicubic };

double linear_filter(double x) {
  x = std::fabs(x);
  return x < 1 ? 1 - x : 0;
}

// Keys' cubic convolution, 1981.
double cubic_filter(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

Taps plain_taps(Mode mode, double centre, int64_t size) {
  Taps taps;
  const auto base = static_cast<int64_t>(std::floor(centre));
  const int64_t reach = mode == Mode::kBicubic ? 2 : 1;
  for (int64_t k = base - reach + 1; k <= base + reach; ++k) {
    const double distance = centre - static_cast<double>(k);
    taps.at.push_back(std::clamp<int64_t>(k, 0, size - 1));
    taps.weight.push_back(mode == Mode::kBicubic ? cubic_filter(distance, -0.75) : linear_filter(distance));
  }
  return taps;
}

Taps wide_taps(Mode mode, int64_t i, double scale, int64_t size) {
  const double width = std::max(scale, 1.0);
  const double support = (mode == Mode::kBicubic ? 2.0 : 1.0) * width;
  const double centre = scale * (static_cast<double>(i) + 0.5);
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
  const int64_t end = std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), size);
  Taps taps;
  double sum = 0;
  for (int64_t k = first; k < end; ++k) {
    const double distance = (static_cast<double>(k) - centre + 0.5) / width;
    taps.at.push_back(k);
    taps.weight.push_back(mode == Mode::kBicubic ? cubic_filter(distance, -0.5) : linear_filter(distance));
    sum += taps.weight.back();
  }
  if (sum != 0) {
    for (double& weight : taps.weight) weight /= sum;
  }
  return taps;
}

struct Options final : Prepared {
  std::vector<Taps> rows;
  std::vector<Taps> columns;
};

std::vector<Taps> axis_taps(const ops::Attributes& attributes, int64_t from, int64_t to) {
  const std::string& name = attributes.get_string("mode");
  const Mode mode = name == "nearest" ? Mode::kNearest : name == "bilinear" ? Mode::kBilinear : Mode::kBicubic;
  const bool corners = attributes.get_bool("align_corners");
  const double scale = corners ? (to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0.0)
                               : static_cast<double>(from) / static_cast<double>(to);
  std::vector<Taps> all;
  for (int64_t i = 0; i < to; ++i) {
    if (mode == Mode::kNearest) {
      all.push_back({{std::min(i * from / to, from - 1)}, {1.0}});
    } else if (attributes.get_bool("antialias")) {
      all.push_back(wide_taps(mode, i, scale, from));
    } else {
      double centre = corners ? scale * static_cast<double>(i) : scale * (static_cast<double>(i) + 0.5) - 0.5;
      if (mode == Mode::kBilinear) centre = std::max(centre, 0.0);
      all.push_back(plain_taps(mode, centre, from));
    }
  }
  return all;
}

Result<std::unique_ptr<Prepared>> prepare(const PrepareInput& input) {
  auto options = std::make_unique<Options>();
  const ops::Attributes& attributes = input.signature.attributes;
  const tensor::Shape& shape = input.signature.operands[0].shape;
  const std::vector<int64_t>& size = attributes.get_ints("size");
  options->rows = axis_taps(attributes, shape[2].factor, size[0]);
  options->columns = axis_taps(attributes, shape[3].factor, size[1]);
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
    for (const Taps& taps : options.rows) {
      std::fill(line.begin(), line.end(), 0.0);
      for (size_t k = 0; k < taps.at.size(); ++k) {
        const float* from = plane.data() + taps.at[k] * width;
        for (size_t i = 0; i < line.size(); ++i) line[i] += taps.weight[k] * static_cast<double>(from[i]);
      }
      for (const Taps& across : options.columns) {
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
