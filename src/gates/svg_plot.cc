// SPDX-License-Identifier: Apache-2.0
#include "gates/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace firstlight::gates {
namespace {

constexpr double kWidth = 520, kHeight = 230, kLeft = 46, kRight = 10, kTop = 14, kBottom = 34;

std::string format(const char* pattern, auto... values) {
  char text[400];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string open_svg(double height, const std::string& label) {
  return format("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", kWidth, height) + html_escaped(label) +
         "\">";
}

// Positions of points: x linear, y logarithmic.
class Axes {
 public:
  explicit Axes(const std::vector<PlotSeries>& series) {
    double least = INFINITY, most = 0;
    first_ = INFINITY;
    last_ = -INFINITY;
    for (const PlotSeries& one : series) {
      for (const auto& [x, y] : one.points) {
        first_ = std::min(first_, x);
        last_ = std::max(last_, x);
        if (!std::isfinite(y) || y <= 0) continue;
        least = std::min(least, y);
        most = std::max(most, y);
      }
    }
    if (most <= 0) least = 1e-9, most = 1e-8;
    low_ = std::floor(std::log10(least));
    high_ = std::max(low_ + 1, std::ceil(std::log10(most) + 0.05));
  }

  bool empty() const { return !(first_ <= last_); }
  double x(double value) const {
    const double share = last_ > first_ ? (value - first_) / (last_ - first_) : 0.5;
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double power = std::isfinite(value) ? std::log10(std::max(value, 1e-300)) : high_;
    const double share = (std::clamp(power, low_, high_) - low_) / (high_ - low_);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
  bool has(double value) const { return value >= first_ && value <= last_; }

  std::string grid(const std::string& x_name) const {
    std::string out;
    const double stride = high_ - low_ > 6 ? 2 : 1;
    for (double power = low_; power <= high_; power += stride) {
      const double at = y(std::pow(10.0, power));
      out +=
          format("<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" class=\"g\"/>", kLeft, kWidth - kRight, at, at);
      out += format("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">1e%.0f</text>", kLeft - 5, at + 4, power);
    }
    // Whole numbers, about five of them, the ends among them.
    const double step = std::max(1.0, std::round((last_ - first_) / 4));
    for (double value = first_; value <= last_ && last_ > first_; value += step) {
      if (value < last_ && value + step > last_) value = last_;
      out += format("<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">%.0f</text>", x(value), kHeight - kBottom + 14,
                    value == first_  ? "start"
                    : value == last_ ? "end"
                                     : "middle",
                    value);
    }
    return out + format("<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">", (kLeft + kWidth) / 2, kHeight - 5) +
           html_escaped(x_name) + "</text>";
  }

 private:
  double low_ = 0, high_ = 1, first_ = 0, last_ = 1;
};

std::string draw(const Axes& axes, const PlotSeries& series) {
  std::string out;
  const std::string colour = "var(" + series.colour + ")";
  if (series.line) {
    std::string points;
    for (const auto& [x, y] : series.points) points += format("%.1f,%.1f ", axes.x(x), axes.y(y));
    return "<polyline fill=\"none\" style=\"stroke:" + colour + "\" stroke-width=\"1.6\"" +
           (series.dashed ? " stroke-dasharray=\"5 4\"" : "") + " points=\"" + points + "\"/>";
  }
  for (const auto& [x, y] : series.points) {
    out += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.4\" style=\"fill:", axes.x(x), axes.y(y)) + colour +
           format("\"><title>%.0f: %.3e</title></circle>", x, y);
  }
  return out;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string log_plot(const std::vector<PlotSeries>& series, const std::vector<PlotMark>& marks,
                     const std::string& x_name, const std::string& label) {
  const Axes axes(series);
  if (axes.empty()) return "";
  std::string out = "<figure>" + open_svg(kHeight, label) + axes.grid(x_name);
  for (const PlotMark& mark : marks) {
    if (!axes.has(mark.x)) continue;
    const double x = axes.x(mark.x);
    out += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\" class=\"m\"/>", x, x, kTop, kHeight - kBottom);
    out += format("<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"end\">", x - 3, kTop + 9) + html_escaped(mark.name) +
           "</text>";
  }
  for (const PlotSeries& one : series) out += draw(axes, one);
  out += "</svg><figcaption>";
  for (const PlotSeries& one : series) {
    if (one.name.empty()) continue;
    out += "<span class=\"key\"><i class=\"" +
           std::string(one.dashed ? "d"
                       : one.line ? "l"
                                  : "o") +
           "\" style=\"color:var(" + one.colour + ")\"></i>" + html_escaped(one.name) + "</span> ";
  }
  return out + "</figcaption></figure>";
}

std::string bar_plot(const std::vector<PlotBar>& bars, double most, const std::string& label) {
  if (bars.empty() || !(most > 0)) return "";
  constexpr double kRow = 40, kBar = 14;
  const double height = kRow * static_cast<double>(bars.size()) + 6;
  std::string out = "<figure>" + open_svg(height, label);
  double y = 4;
  const auto width = [&](double value) { return (kWidth - 2) * std::clamp(value / most, 0.0, 1.0); };
  for (const PlotBar& bar : bars) {
    out += format("<text x=\"0\" y=\"%.0f\">", y + 11) + html_escaped(bar.name) + "</text>";
    out += format("<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">", kWidth - 2, y + 11) + html_escaped(bar.text) +
           "</text>";
    out += format("<rect x=\"0\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" class=\"b\"/>", y + 16, kWidth - 2, kBar);
    out += format("<rect x=\"0\" y=\"%.0f\" width=\"%.1f\" height=\"%.0f\" style=\"fill:var(%s)\"/>", y + 16,
                  width(bar.value), kBar, bar.good ? "--blue" : "--red");
    if (bar.wanted > 0) {
      out += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\" class=\"w\"/>", width(bar.wanted),
                    width(bar.wanted), y + 13, y + 19 + kBar);
    }
    y += kRow;
  }
  return out + "</svg></figure>";
}

std::string histogram_plot(const std::vector<std::pair<std::string, double>>& bins, const std::string& label) {
  double most = 0;
  for (const auto& [name, value] : bins) most = std::max(most, value);
  if (most <= 0) return "";
  constexpr double kTall = 130;
  const double step = kWidth / static_cast<double>(bins.size());
  std::string out = "<figure>" + open_svg(kTall + 30, label);
  for (size_t i = 0; i < bins.size(); ++i) {
    const double height = kTall * bins[i].second / most;
    const double x = step * static_cast<double>(i);
    out += format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" style=\"fill:var(--blue)\"><title>",
                  x + 1, kTall + 8 - height, step - 2, height) +
           html_escaped(bins[i].first) + format(": %.0f</title></rect>", bins[i].second);
    if (i % 4 == 0)
      out += format("<text x=\"%.1f\" y=\"%.0f\">", x + 1, kTall + 24) + html_escaped(bins[i].first) + "</text>";
  }
  return out + "</svg></figure>";
}

}  // namespace firstlight::gates
