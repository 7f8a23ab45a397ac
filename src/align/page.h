// SPDX-License-Identifier: Apache-2.0
// What reports in HTML are made of: escaped text, one style, and plots as SVG whose vertical axis is logarithmic.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace firstlight::align::page {

std::string format(const char* pattern, auto... values) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string escaped(std::string_view text);

extern const std::string_view kStyle;

inline constexpr double kWidth = 960, kHeight = 300, kLeft = 56, kRight = 12, kTop = 12, kBottom = 30;
inline constexpr double kLowest = 1e-9;

// Positions in a plot.
struct Axes {
  double low = -9, high = 0;  // powers of ten
  size_t count = 1;

  double x(size_t i) const;
  double y(double value) const;
};

std::string polyline(const Axes& axes, const std::vector<double>& values, const char* style);
std::string grid(const Axes& axes);

}  // namespace firstlight::align::page
