// SPDX-License-Identifier: Apache-2.0
// Filters and their supports as torch.nn.functional.interpolate has them.
#include "kernels/interp2d/taps.h"

#include <algorithm>
#include <cmath>

namespace firstlight::kernels {
namespace {

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

InterpTaps plain_taps(Mode mode, double centre, int64_t size) {
  InterpTaps taps;
  const auto base = static_cast<int64_t>(std::floor(centre));
  const int64_t reach = mode == Mode::kBicubic ? 2 : 1;
  for (int64_t k = base - reach + 1; k <= base + reach; ++k) {
    const double distance = centre - static_cast<double>(k);
    taps.at.push_back(std::clamp<int64_t>(k, 0, size - 1));
    taps.weight.push_back(mode == Mode::kBicubic ? cubic_filter(distance, -0.75) : linear_filter(distance));
  }
  return taps;
}

InterpTaps wide_taps(Mode mode, int64_t i, double scale, int64_t size) {
  const double width = std::max(scale, 1.0);
  const double support = (mode == Mode::kBicubic ? 2.0 : 1.0) * width;
  const double centre = scale * (static_cast<double>(i) + 0.5);
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
  const int64_t end = std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), size);
  InterpTaps taps;
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

}  // namespace

std::vector<InterpTaps> interp_taps(const ops::Attributes& attributes, int64_t from, int64_t to) {
  const std::string& name = attributes.get_string("mode");
  const Mode mode = name == "nearest" ? Mode::kNearest : name == "bilinear" ? Mode::kBilinear : Mode::kBicubic;
  const bool corners = attributes.get_bool("align_corners");
  const double scale = corners ? (to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0.0)
                               : static_cast<double>(from) / static_cast<double>(to);
  std::vector<InterpTaps> all;
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

}  // namespace firstlight::kernels
