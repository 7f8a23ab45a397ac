// SPDX-License-Identifier: Apache-2.0
// Plots as SVG inside an HTML page. Colours are the page's CSS variables, so that dark pages have dark plots; small
// enough that a phone shows their letters.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace firstlight::gates {

// What may stand between tags and in attributes.
std::string html_escaped(std::string_view text);

struct PlotSeries {
  std::string name;
  std::string colour;  // a CSS variable: "--blue"
  std::vector<std::pair<double, double>> points;
  bool line = true;  // else dots
  bool dashed = false;
};

struct PlotMark {  // a vertical line
  double x = 0;
  std::string name;
};

// Values over x, their axis logarithmic; zeros lie on the bottom, what is no number at the top. Empty without points.
std::string log_plot(const std::vector<PlotSeries>& series, const std::vector<PlotMark>& marks,
                     const std::string& x_name, const std::string& label);

struct PlotBar {
  std::string name;
  double value = 0;
  double wanted = 0;  // a mark on it; 0: none
  std::string text;   // behind it
  bool good = true;
};

// Bars to the right, of values from 0 to `most`.
std::string bar_plot(const std::vector<PlotBar>& bars, double most, const std::string& label);

// Upright bars, one per bin.
std::string histogram_plot(const std::vector<std::pair<std::string, double>>& bins, const std::string& label);

}  // namespace firstlight::gates
