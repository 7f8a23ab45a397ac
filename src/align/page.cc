// SPDX-License-Identifier: Apache-2.0
#include "align/page.h"

#include <algorithm>

namespace firstlight::align::page {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

const std::string_view kStyle =
    "body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "table{border-collapse:collapse;width:100%;font-size:13px}"
    "td,th{border-bottom:1px solid #ddd;padding:.25em .5em;text-align:left;vertical-align:top}"
    "td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}.yes{color:#060}.no{color:#a00;"
    "font-weight:bold}"
    "svg{width:100%;height:auto;background:#fafafa;border:1px solid #ddd}"
    "text{font:11px sans-serif;fill:#555}.scroll{overflow-x:auto}";

double Axes::x(size_t i) const {
  const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.5;
  return kLeft + share * (kWidth - kLeft - kRight);
}

double Axes::y(double value) const {
  const double power = std::log10(std::max(value, kLowest));
  const double share = (std::clamp(power, low, high) - low) / (high - low);
  return kHeight - kBottom - share * (kHeight - kTop - kBottom);
}

std::string polyline(const Axes& axes, const std::vector<double>& values, const char* style) {
  std::string points;
  for (size_t i = 0; i < values.size(); ++i) points += format("%.1f,%.1f ", axes.x(i), axes.y(values[i]));
  return "<polyline fill=\"none\" " + std::string(style) + " points=\"" + points + "\"/>";
}

std::string grid(const Axes& axes) {
  std::string out;
  for (double power = axes.low; power <= axes.high; power += 1) {
    const double y = axes.y(std::pow(10.0, power));
    out += format("<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>", kLeft, kWidth - kRight,
                  y, y);
    out += format("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">1e%.0f</text>", kLeft - 6, y + 4, power);
  }
  return out;
}

}  // namespace firstlight::align::page
